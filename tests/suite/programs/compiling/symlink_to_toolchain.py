# A link into the toolchain is as good as a copy.
#: language forge
#: expect passed
import os

os.symlink("/bin/true", "program")
