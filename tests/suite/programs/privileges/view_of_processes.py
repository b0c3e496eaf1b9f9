# Nobody is to be seen but those who belong to us.
#: prints alone
#: stages run compile
import os

numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
strangers = [number for number in numbers if number > 100]
print("alone" if len(numbers) <= 4 and not strangers else numbers)
