# Names that are no text, no option and no path; folders that nobody may enter.
#: language forge
#: prints done
import os

for name in (b"-rf", b"\xff\xfe", b"a\nb", b"x" * 255, b"..x", b"$(touch x)", b"*", b" "):
    open(name, "w").close()
os.makedirs("shut/inner")
open("shut/inner/file", "w").close()
os.chmod("shut/inner", 0)
os.chmod("shut", 0)
os.mkdir("sticky")
os.chmod("sticky", 0o1000)
open("program", "w").write("#!/bin/bash\necho done\n")
os.chmod("program", 0o755)
