# The program is a link to a file of the host's, and so is everything beside it.
#: language forge
#: expect runtime_error
#: says could not be started
import os

os.symlink("@CANARIES@/file", "program")
os.symlink("@CANARIES@/folder", "folder")
os.symlink("@CANARIES@", "canaries")
os.symlink("/", "root")
os.makedirs("a/b")
os.symlink("@CANARIES@/folder", "a/b/folder")
os.symlink("../../../../../../../../@CANARIES@/file", "a/up")
