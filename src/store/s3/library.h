/* library.h: a library that only stores on the network need, loaded when the first is opened. */
#ifndef STORE_S3_LIBRARY_H
#define STORE_S3_LIBRARY_H

#include <stddef.h>

struct library {
    const char *file;           /* "libcurl.so.4" */
    const char *const *symbols; /* the functions that we call, in the order of the table */
    size_t count;
    void **_Atomic functions; /* set once, for the life of the process */
};

/* The table of functions: as many pointers as there are symbols, to be read as a struct of pointers
 * to functions. NULL when the library is missing or lacks one, or without memory. */
const void *library_load(struct library *library);

#endif
