/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_url.c: parses arbitrary bytes as a store URL. An accepted URL must mean the same after
 * it is written and escaped again. */
#include "base/buffer.h"
#include "base/check.h"
#include "base/url.h"
#include "fuzz.h"

static bool stands_in(const struct url *url, struct view piece)
{
    return piece.size == 0 ||
           (piece.data >= url->space && piece.data + piece.size <= url->space + URL_BYTES_MAX);
}

static void append_escaped(struct buffer *text, struct view bytes, const char *special)
{
    for (size_t i = 0; i < bytes.size; i++) {
        if (strchr(special, bytes.data[i]))
            buffer_print(text, "%%%02X", (unsigned)(unsigned char)bytes.data[i]);
        else
            buffer_append_byte(text, bytes.data[i]);
    }
}

static void write_url(const struct url *url, struct buffer *text)
{
    buffer_append(text, url->scheme);
    buffer_append_byte(text, ':');
    if (url->host.size > 0) {
        buffer_append(text, VIEW("//"));
        append_escaped(text, url->host, "%?/");
        append_escaped(text, url->path, "%?");
    } else {
        append_escaped(text, url->path, "%?/");
    }
    for (size_t i = 0; i < url->parameter_count; i++) {
        buffer_append_byte(text, i == 0 ? '?' : '&');
        buffer_append(text, url->parameters[i].name);
        buffer_append_byte(text, '=');
        append_escaped(text, url->parameters[i].value, "%&");
    }
}

static void check_same(const struct url *a, const struct url *b)
{
    check(view_equal(a->scheme, b->scheme));
    check(view_equal(a->host, b->host));
    check(view_equal(a->path, b->path));
    check(a->parameter_count == b->parameter_count);
    for (size_t i = 0; i < a->parameter_count; i++) {
        check(view_equal(a->parameters[i].name, b->parameters[i].name));
        check(view_equal(a->parameters[i].value, b->parameters[i].value));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct url url, again;
    struct hf_error error = { .status = HF_OK };
    if (url_parse((struct view){ (const char *)data, size }, &url, &error) != HF_OK) {
        check(error.status == HF_INVALID && error.why[0] != '\0');
        return 0;
    }
    check(url.scheme.size > 0 && stands_in(&url, url.scheme));
    check(stands_in(&url, url.host) && stands_in(&url, url.path));
    check(url.parameter_count <= URL_PARAMETERS_MAX);
    for (size_t i = 0; i < url.parameter_count; i++)
        check(url.parameters[i].name.size > 0 && stands_in(&url, url.parameters[i].value));

    struct buffer text = BUFFER_INIT(URL_BYTES_MAX); /* escaped again it may be too long */
    write_url(&url, &text);
    if (!text.failed) {
        check(url_parse(buffer_view(&text), &again, &error) == HF_OK);
        check_same(&url, &again);
    }
    buffer_release(&text);
    return 0;
}
