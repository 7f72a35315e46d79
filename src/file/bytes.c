/* SPDX-License-Identifier: Apache-2.0 */
/* bytes.c: reads and writes an open file at an offset. Short reads, short writes and EINTR are
 * retried, so a caller never gets a partial result. */
#include "file/bytes.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

enum hf_status file_size(int fd, uint64_t *ret_size, struct hf_error *error)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return error_from_errno(error, errno, "read the attributes of the file");
    if (!S_ISREG(st.st_mode))
        return error_set(error, HF_INVALID, "only a regular file can be streamed");
    *ret_size = (uint64_t)st.st_size;
    return HF_OK;
}

enum hf_status file_write_at(int fd, struct view bytes, uint64_t offset, struct hf_error *error)
{
    while (bytes.size > 0) {
        ssize_t done = pwrite(fd, bytes.data, bytes.size, (off_t)offset);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return error_from_errno(error, errno, "write");
        bytes = view_from(bytes, (size_t)done);
        offset += (uint64_t)done;
    }
    return HF_OK;
}

enum hf_status file_read_at(int fd, void *bytes, size_t size, uint64_t offset, size_t *ret_size,
                            struct hf_error *error)
{
    size_t got = 0;
    while (got < size) {
        ssize_t done = pread(fd, (char *)bytes + got, size - got, (off_t)(offset + got));
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return error_from_errno(error, errno, "read");
        if (done == 0)
            break;
        got += (size_t)done;
    }
    *ret_size = got;
    return HF_OK;
}

enum hf_status file_set_size(int fd, uint64_t size, struct hf_error *error)
{
    while (ftruncate(fd, (off_t)size) != 0)
        if (errno != EINTR)
            return error_from_errno(error, errno, "set the size of the file");
    return HF_OK;
}
