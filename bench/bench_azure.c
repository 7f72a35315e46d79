/* SPDX-License-Identifier: Apache-2.0 */
/* bench_azure.c: measures the azure store on Azurite, Microsoft's emulator, on loopback.
 *
 *   put      puts of 1 KiB on one connection, against bare libcurl sending the same signed puts
 *
 * It starts its own Azurite with SERVERS/azurite-up (--servers=, default tests/servers), and stops
 * it. */
#include "base/base64.h"
#include "base/check.h"
#include "client.h"
#include "place.h"

#include <curl/curl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BODY_BYTES    1024
#define ACCOUNT       "devstoreaccount1"
#define CONTAINER     "bench"
#define MD5_SIZE      16
#define MD5_TEXT_SIZE 25
#define SHA256_SIZE   32
#define VERSION       "2021-12-02"

/* The key of the emulator's account is public: it is part of Azure's documentation. */
static const char key_text[] = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/"
                               "K1SZFPTOtr/KBHBeksoGMGw==";

/* ---- Bare libcurl -------------------------------------------------------------------- */

struct bare {
    CURL *handle;
    const char *endpoint;
    unsigned char key[64];
    size_t key_size;
    struct view body;
    size_t sent;
};

static size_t read_body(char *to, size_t size, size_t count, void *argument)
{
    struct bare *bare = argument;
    struct view left = view_first(view_from(bare->body, bare->sent), size * count);
    memcpy(to, left.data, left.size);
    bare->sent += left.size;
    return left.size;
}

static size_t drop_reply(char *from, size_t size, size_t count, void *argument)
{
    (void)from;
    (void)argument;
    return size * count;
}

static void bare_open(struct bare *bare, const char *endpoint)
{
    *bare = (struct bare){ .handle = curl_easy_init(), .endpoint = endpoint };
    unsigned char decoded[3 * (sizeof key_text / 4) + 3];
    int size = EVP_DecodeBlock(decoded, (const unsigned char *)key_text, (int)strlen(key_text));
    check(size >= 64);
    memcpy(bare->key, decoded, sizeof bare->key);
    bare->key_size = sizeof bare->key;
    curl_easy_setopt(bare->handle, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(bare->handle, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(bare->handle, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(bare->handle, CURLOPT_READFUNCTION, read_body);
    curl_easy_setopt(bare->handle, CURLOPT_READDATA, bare);
    curl_easy_setopt(bare->handle, CURLOPT_WRITEFUNCTION, drop_reply);
    curl_easy_setopt(bare->handle, CURLOPT_UPLOAD, 1L);
}

static struct curl_slist *add_line(struct curl_slist *lines, const char *name,
                                   const char *value)
{
    char line[256];
    snprintf(line, sizeof line, "%s: %s", name, value);
    return curl_slist_append(lines, line);
}

/* Signs with the account's key (Shared Key) and sends a put; a container has no body. Dies of any
 * status but 201. */
static void bare_send(struct bare *bare, const char *path, const char *query, struct view body)
{
    char date[40], text[1024], url[512], md5[MD5_TEXT_SIZE] = "", signature[48], line[160];
    char length[24] = "";
    unsigned char digest[SHA256_SIZE], hash[MD5_SIZE];
    struct tm calendar;
    time_t now = time(NULL);
    strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &calendar));
    bool blob = body.size > 0;
    if (blob) {
        check(EVP_Digest(body.data, body.size, hash, NULL, EVP_md5(), NULL) == 1);
        base64_encode((struct view){ (const char *)hash, sizeof hash }, md5);
        snprintf(length, sizeof length, "%zu", body.size);
    }
    snprintf(text, sizeof text,
             "PUT\n\n\n%s\n%s\n%s\n\n\n\n\n\n\n%sx-ms-date:%s\nx-ms-version:" VERSION
             "\n/" ACCOUNT "%s%s",
             length, md5, blob ? "application/octet-stream" : "",
             blob ? "x-ms-blob-type:BlockBlob\n" : "", date, path,
             blob ? "" : "\nrestype:container");
    check(HMAC(EVP_sha256(), bare->key, (int)bare->key_size, (const unsigned char *)text,
               strlen(text), digest, NULL));
    base64_encode((struct view){ (const char *)digest, sizeof digest }, signature);
    snprintf(line, sizeof line, "SharedKey " ACCOUNT ":%s", signature);
    struct curl_slist *lines = curl_slist_append(NULL, "Expect:");
    lines = add_line(lines, "x-ms-date", date);
    lines = add_line(lines, "x-ms-version", VERSION);
    lines = add_line(lines, "Authorization", line);
    if (blob) {
        lines = add_line(lines, "content-type", "application/octet-stream");
        lines = add_line(lines, "x-ms-blob-type", "BlockBlob");
        lines = add_line(lines, "content-md5", md5);
    }
    snprintf(url, sizeof url, "%s%s%s", bare->endpoint, path, query);
    bare->body = body;
    bare->sent = 0;
    curl_easy_setopt(bare->handle, CURLOPT_URL, url);
    curl_easy_setopt(bare->handle, CURLOPT_HTTPHEADER, lines);
    curl_easy_setopt(bare->handle, CURLOPT_INFILESIZE_LARGE, (curl_off_t)body.size);
    CURLcode code = curl_easy_perform(bare->handle);
    long status = 0;
    curl_easy_getinfo(bare->handle, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK || status != 201)
        bench_die("bare put: %s, status %ld", curl_easy_strerror(code), status);
    curl_slist_free_all(lines);
}

static void bare_put(struct bare *bare, const char *key, struct view body)
{
    char path[256];
    snprintf(path, sizeof path, "/" ACCOUNT "/" CONTAINER "/%s", key);
    bare_send(bare, path, "", body);
}

/* ---- put ----------------------------------------------------------------------------- */

static struct hf_store *open_store(const char *endpoint)
{
    char url[400];
    struct hf_store *store;
    struct hf_error error;
    setenv("AZURE_STORAGE_KEY", key_text, 1);
    snprintf(url, sizeof url, "azure://" ACCOUNT "/" CONTAINER "?endpoint=%s&connections=1",
             endpoint);
    must(hf_store_open(url, NULL, &store, &error), &error, url);
    return store;
}

/* By the store, or, if it is NULL, by bare libcurl. */
static double puts_per_second(struct hf_store *store, struct bare *bare, double seconds)
{
    char body[BODY_BYTES], key[32];
    struct hf_error error;
    double start = now_s();
    unsigned done = 0;
    for (; now_s() - start < seconds; done++) {
        memset(body, 'x', sizeof body);
        snprintf(body, sizeof body, "%u", done);
        snprintf(key, sizeof key, "put-%u", done % 64);
        if (store)
            must(hf_store_put(store, key, body, sizeof body, NULL, NULL, &error), &error,
                 "put");
        else
            bare_put(bare, key, (struct view){ body, sizeof body });
    }
    return done / (now_s() - start);
}

static void bench_put(struct bench *bench)
{
    struct series ours = { .count = 0 }, theirs = ours;
    const char *endpoint = bench_azurite();
    struct bare bare;
    bare_open(&bare, endpoint);
    bare_send(&bare, "/" ACCOUNT "/" CONTAINER, "?restype=container", VIEW(""));
    struct hf_store *store = open_store(endpoint);
    puts_per_second(NULL, &bare, 0.5);
    puts_per_second(store, NULL, 0.5);
    for (size_t round = 0; round < bench->rounds; round++) {
        series_add(&ours, puts_per_second(store, NULL, bench->seconds));
        series_add(&theirs, puts_per_second(NULL, &bare, bench->seconds));
    }
    bench_figure(bench, "puts of 1 KiB on Azurite, hf_store_put", "puts/s", &ours);
    bench_figure(bench, "the same on Azurite by bare libcurl", "puts/s", &theirs);
    bench_ratio(bench, "hf_store_put / bare libcurl, Azurite", &ours, &theirs, 1 / 1.1);
    hf_store_close(store);
    curl_easy_cleanup(bare.handle);
}

static const struct bench_part parts[] = { { "put", bench_put }, { NULL, NULL } };

int main(int argc, char **argv)
{
    struct bench bench = { .rounds = PAIRS, .seconds = 0.7 };
    curl_global_init(CURL_GLOBAL_DEFAULT);
    return bench_main(&bench, parts, argc, argv);
}
