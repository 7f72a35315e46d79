/* SPDX-License-Identifier: Apache-2.0 */
/* status.c: status names and exit codes, from the table in holdfast.h. */
#include "holdfast.h"

struct status_row {
    const char *name;
    const char *text;
    int exit_code;
};

#define ROW(name, code, text) [HF_##name] = { #name, text, code },
static const struct status_row rows[HF_STATUS_COUNT] = { HF_STATUS_TABLE(ROW) };
#undef ROW

static const struct status_row *status_row_of(enum hf_status status)
{
    static const struct status_row unknown = { "unknown", "unknown status", 1 };
    return (unsigned)status < HF_STATUS_COUNT ? &rows[status] : &unknown;
}

const char *hf_status_name(enum hf_status status)
{
    return status_row_of(status)->name;
}

const char *hf_status_text(enum hf_status status)
{
    return status_row_of(status)->text;
}

int hf_status_exit_code(enum hf_status status)
{
    return status_row_of(status)->exit_code;
}

int hf_version_number(void)
{
    return HF_VERSION;
}

const char *hf_version(void)
{
    return HOLDFAST_VERSION;
}
