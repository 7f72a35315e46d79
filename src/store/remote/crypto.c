/* SPDX-License-Identifier: Apache-2.0 */
/* crypto.c: SHA-256, HMAC, SHA-1 and MD5 from libcrypto, which is loaded at run time, only for
 * stores on the network. */
#include "store/remote/crypto.h"

#include "base/check.h"
#include "base/hash.h"
#include "file/library.h"

#include <assert.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

struct functions {
    int (*init)(uint64_t options, const OPENSSL_INIT_SETTINGS *settings);
    const EVP_MD *(*sha256)(void);
    const EVP_MD *(*md5)(void);
    const EVP_MD *(*sha1)(void);
    int (*digest)(const void *data, size_t size, unsigned char *md, unsigned int *md_size,
                  const EVP_MD *type, ENGINE *engine);
    unsigned char *(*hmac)(const EVP_MD *type, const void *key, int key_size,
                           const unsigned char *data, size_t size, unsigned char *md,
                           unsigned int *md_size);
    EVP_MD_CTX *(*context_new)(void);
    void (*context_free)(EVP_MD_CTX *context);
    int (*begin)(EVP_MD_CTX *context, const EVP_MD *type, ENGINE *engine);
    int (*add)(EVP_MD_CTX *context, const void *data, size_t size);
    int (*end)(EVP_MD_CTX *context, unsigned char *md, unsigned int *md_size);
};

/* In the order of struct functions. */
static const char *const symbols[] = {
    "OPENSSL_init_crypto",
    "EVP_sha256",
    "EVP_md5",
    "EVP_sha1",
    "EVP_Digest",
    "HMAC",
    "EVP_MD_CTX_new",
    "EVP_MD_CTX_free",
    "EVP_DigestInit_ex",
    "EVP_DigestUpdate",
    "EVP_DigestFinal_ex",
};
static_assert(sizeof(struct functions) == sizeof symbols, "a symbol for each function");

static struct library library = { "libcrypto.so.3", symbols, sizeof symbols / sizeof symbols[0],
                                  NULL };

/* Without NO_ATEXIT, libcrypto would free its memory when the program calls exit(), although
 * threads of a client may still be using it. It has no effect if the program has used libcrypto
 * before. */
bool crypto_load(void)
{
    const struct functions *functions = library_load(&library);
    return functions && functions->init(OPENSSL_INIT_NO_ATEXIT, NULL) == 1;
}

static const struct functions *crypto_functions(void)
{
    const struct functions *functions = library_load(&library);
    check(functions);
    return functions;
}

/* libcrypto does not accept NULL, even for size 0. */
static const void *data_of(struct view bytes)
{
    return bytes.size > 0 ? bytes.data : "";
}

/* libcrypto is faster, but fails if memory runs out or the program is ending. */
void sha256(struct view bytes, unsigned char ret_digest[SHA256_SIZE])
{
    if (!crypto_functions()->digest(data_of(bytes), bytes.size, ret_digest, /* size */ NULL,
                                    crypto_functions()->sha256(), NULL))
        hash_sha256(bytes, ret_digest);
}

bool hmac_sha256(struct view key, struct view text, unsigned char ret_digest[SHA256_SIZE])
{
    unsigned int size = SHA256_SIZE;
    return crypto_functions()->hmac(crypto_functions()->sha256(), data_of(key), (int)key.size,
                                    data_of(text), text.size, ret_digest, &size) != NULL;
}

static bool weak_digest(const EVP_MD *type, struct view bytes, unsigned char *ret_digest,
                        unsigned int wanted)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    if (!crypto_functions()->digest(data_of(bytes), bytes.size, digest, &size, type, NULL) ||
        size != wanted)
        return false;
    memcpy(ret_digest, digest, wanted);
    return true;
}

bool sha1(struct view bytes, unsigned char ret_digest[SHA1_SIZE])
{
    return weak_digest(crypto_functions()->sha1(), bytes, ret_digest, SHA1_SIZE);
}

bool md5(struct view bytes, unsigned char ret_digest[MD5_SIZE])
{
    return weak_digest(crypto_functions()->md5(), bytes, ret_digest, MD5_SIZE);
}

static EVP_MD_CTX *context_of(struct sha256_stream *stream)
{
    return (EVP_MD_CTX *)(void *)stream;
}

struct sha256_stream *sha256_begin(void)
{
    EVP_MD_CTX *context = crypto_functions()->context_new();
    if (context && crypto_functions()->begin(context, crypto_functions()->sha256(), NULL))
        return (struct sha256_stream *)(void *)context;
    crypto_functions()->context_free(context);
    return NULL;
}

bool sha256_add(struct sha256_stream *stream, struct view bytes)
{
    return crypto_functions()->add(context_of(stream), data_of(bytes), bytes.size) == 1;
}

bool sha256_end(struct sha256_stream *stream, unsigned char ret_digest[SHA256_SIZE])
{
    bool good =
        !ret_digest || crypto_functions()->end(context_of(stream), ret_digest, NULL) == 1;
    crypto_functions()->context_free(context_of(stream));
    return good;
}
