/* SPDX-License-Identifier: Apache-2.0 */
/* library.h: a library that only stores on the network need. It is loaded when the first such store
 * is opened. */
#ifndef STORE_S3_LIBRARY_H
#define STORE_S3_LIBRARY_H

#include <stddef.h>

struct library {
    const char *file;           /* "libcurl.so.4" */
    const char *const *symbols; /* the functions that we call, in table order */
    size_t count;
    void **_Atomic functions; /* set once, for the life of the process */
};

/* The table of functions: one pointer per symbol, to be cast to a struct of function pointers.
 * NULL if the library or one of its functions is missing, or memory runs out. */
const void *library_load(struct library *library);

#endif
