// Opens the root of the host's file system by its handle.
//: prints refused
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    int mount = open("/workspace", O_RDONLY);
    for (unsigned number = 0; number < 64; number++) {
        struct file_handle *handle = calloc(1, sizeof *handle + 8);
        handle->handle_bytes = 8;
        handle->handle_type = 1;
        memcpy(handle->f_handle, &number, sizeof number);
        if (open_by_handle_at(mount, handle, O_RDONLY) >= 0) printf("opened %u\n", number);
        free(handle);
    }
    int id;
    struct file_handle *own = calloc(1, sizeof *own + 128);
    own->handle_bytes = 128;
    if (name_to_handle_at(AT_FDCWD, "/workspace", own, &id, 0) == 0 && open_by_handle_at(mount, own, O_RDONLY) >= 0)
        puts("opened the workspace");
    puts("refused");
}
