# Sums numbers, but takes only the first of each line: the second test fails.
total = 0
for line in open(0):
    total += int(line.split()[0])
print("sum:")
print(total)
