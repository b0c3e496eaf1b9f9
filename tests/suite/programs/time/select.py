#: expect timeout
#: timeout_ms 500
import select
select.select([], [], [], 600)
