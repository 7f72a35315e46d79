/* SPDX-License-Identifier: Apache-2.0 */
/* guard.h: who may do what.
 *
 * TOKENS. A client sends `Authorization: Bearer TOKEN`. The token file has one line for each token:
 *
 *     # name, SHA-256 of the token in hexadecimal, rights, namespaces
 *     ci 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae lock,write jobs,ci-*
 *
 * The rights are read, lock, write and admin; lock and write include read, and admin includes all.
 * A namespace that ends with an asterisk stands for all that begin with the rest. The file contains
 * no token, only hashes, which are compared in constant time. Without a token file, every client
 * that can connect may do everything.
 *
 * HOSTS. A web page may make a browser send requests to a server on its own machine, under a name
 * that the page's owner controls. So the Host header must name an address of this server, and the
 * Origin header, if there is one, the same host.
 *
 * A guard is read-only once it has been loaded. */
#ifndef SERVE_GUARD_GUARD_H
#define SERVE_GUARD_GUARD_H

#include "base/error.h"
#include "serve/http/server.h"

enum right {
    RIGHT_READ = 1,
    RIGHT_LOCK = 2 | RIGHT_READ,
    RIGHT_WRITE = 4 | RIGHT_READ,
    RIGHT_ADMIN = 8 | RIGHT_LOCK | RIGHT_WRITE,
};

struct guard;

#define GUARD_TOKENS_MAX 1000
#define GUARD_HOSTS_MAX  32

/* `token_file` may be NULL. `hosts` are further names of this server, beside localhost and its
 * addresses; ends with NULL. INVALID names the line that is wrong. */
enum hf_status guard_load(const char *token_file, const char *const *hosts,
                          struct guard **ret_guard, struct hf_error *error);
void guard_free(struct guard *guard);

/* Whether there are tokens. */
bool guard_has_tokens(const struct guard *guard);

enum guard_verdict {
    GUARD_PASSES,
    GUARD_WRONG_HOST, /* the Host or Origin header is not ours */
    GUARD_NO_TOKEN,   /* the token is missing or not known */
    GUARD_NO_RIGHT,   /* the token does not have this right in this namespace */
};

/* Without a namespace (NULL), the right in any namespace is enough. *ret_name is the name of the
 * client's token, or NULL, and is valid as long as the guard. */
enum guard_verdict guard_check(const struct guard *guard, const struct http_request *request,
                               unsigned right, const char *ns, const char **ret_name);

#endif
