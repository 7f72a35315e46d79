/* SPDX-License-Identifier: Apache-2.0 */
/* place.h: where a benchmark runs: its own folder, its own Ceph cluster or Azurite if it asks for
 * one, and the parts that the command line names. Everything is removed when the benchmark ends,
 * even if it dies. */
#ifndef BENCH_PLACE_H
#define BENCH_PLACE_H

#include "bench.h"

#define CEPH_BUCKET     "holdfast-test"
#define CEPH_ACCESS_KEY "holdfast-access"
#define CEPH_SECRET_KEY "holdfast-secret"

struct bench_part {
    const char *name; /* NULL ends a list */
    void (*run)(struct bench *bench);
};

/* Reads [--json] [--rounds=N] [--seconds=S] [--mib=N] [--dir=PATH] [--servers=DIR] [PART], runs
 * the parts, and returns the exit status. `bench` has the defaults. */
int bench_main(struct bench *bench, const struct bench_part *parts, int argc, char **argv);

/* The folder: below --dir, $TMPDIR or /tmp; made when first asked for. */
const char *bench_folder(void);

/* Removes a folder with all that is in it. */
void remove_tree(const char *path);

/* "http://127.0.0.1:..." of a gateway of a new cluster, which is started when first asked for
 * (by ceph-up of --servers, tests/servers if not given); the credentials are in the
 * environment. */
const char *bench_ceph(void);

/* The same of a new Azurite, which azurite-up starts. */
const char *bench_azurite(void);

/* Kills the gateway of that cluster, and starts it again under its old address. */
void bench_ceph_kill(void);
void bench_ceph_restart(void);

/* Seconds, on the boot-time clock. */
double now_s(void);

#endif
