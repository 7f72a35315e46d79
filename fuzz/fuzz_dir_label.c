/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_dir_label.c: writes arbitrary bytes over the attribute of an object of a `dir:` store. A
 * change of the ETag's bytes must change the ETag. Any other change must make the file a
 * foreign one, whose ETag is a hash. */
#include "base/check.h"
#include "fuzz.h"
#include "store/dir/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/xattr.h>
#include <unistd.h>

#define ATTRIBUTE    "user.holdfast"
#define LABEL_BYTES  48
#define RANDOM_START 8
#define LAID_MAX     256

/* One file without a name for all inputs; -1 where there are no such attributes. */
static int file_with_label(void)
{
    static int fd = -2;
    const char *folder = getenv("TMPDIR");
    char path[4096];
    if (fd != -2)
        return fd;
    snprintf(path, sizeof path, "%s/holdfast-fuzz-XXXXXX", folder ? folder : "/tmp");
    fd = mkostemp(path, O_CLOEXEC);
    check(fd >= 0 && unlink(path) == 0 && write(fd, "object", 6) == 6);
    if (fsetxattr(fd, ATTRIBUTE, "", 0, 0) != 0 && errno == EOPNOTSUPP)
        fd = -1;
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned char random[DIR_ETAG_BYTES] = "sixteen random.";
    int fd = file_with_label();
    unsigned char label[LAID_MAX] = { 0 };
    struct hf_error error;
    struct etag etag;
    struct object_info info;
    struct stat st;
    if (fd < 0 || size > sizeof label)
        return 0;
    check(dir_file_label(fd, random, &etag, &error) == HF_OK);
    check(fgetxattr(fd, ATTRIBUTE, label, LABEL_BYTES) == LABEL_BYTES);
    bool foreign = size != LABEL_BYTES, other = false;
    for (size_t i = 0; i < size; i++) {
        label[i] ^= data[i];
        bool of_etag = i >= RANDOM_START && i < RANDOM_START + DIR_ETAG_BYTES;
        foreign = foreign || (data[i] != 0 && !of_etag);
        other = other || (data[i] != 0 && of_etag);
    }
    check(fsetxattr(fd, ATTRIBUTE, label, size, 0) == 0);
    check(dir_file_info(fd, &info, &st, &error) == HF_OK && info.size == 6);
    check((info.etag.size == 2 * DIR_ETAG_BYTES) == !foreign);
    if (foreign)
        check(info.etag.size == 2 * DIR_ETAG_BYTES + 1 && info.etag.data[0] == 'f');
    else
        check(etag_equal(&info.etag, &etag) == !other);
    return 0;
}
