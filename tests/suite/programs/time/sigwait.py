#: expect timeout
#: timeout_ms 500
import signal
signal.sigwait([signal.SIGUSR1])
