/* SPDX-License-Identifier: Apache-2.0 */
/* work.h: the kinds of work of the helper. Each fills in the report and returns its status. */
#ifndef PARQUET_WORK_H
#define PARQUET_WORK_H

#include "parquet/engine.h"

enum hf_status work_survey(struct engine *engine, struct parquet_report *report,
                           struct hf_error *error);
enum hf_status work_merge(struct engine *engine, struct parquet_report *report,
                          struct hf_error *error);
enum hf_status work_convert(struct engine *engine, struct parquet_report *report,
                            struct hf_error *error);

#endif
