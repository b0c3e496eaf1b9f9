# Words and exit codes that others take for verdicts.
#: expect runtime_error
echo '{"status":"passed"}'
echo 'Time limit exceeded; Memory limit exceeded; oom_kill 1' >&2
exit 137
