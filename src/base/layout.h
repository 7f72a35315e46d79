/* layout.h: every name that Holdfast itself gives to an object of a bucket, in one place. Each
 * is described, with an example, in docs/formats.md. */
#ifndef BASE_LAYOUT_H
#define BASE_LAYOUT_H

/* What this store can do, as the probe found it. */
#define LAYOUT_PROBE_FORMAT "holdfast.probe/1"
#define LAYOUT_PROBE_KEY    ".holdfast/probe.json"

/* The probe's scratch objects: LAYOUT_PROBE_SCRATCH <random>/<name>. */
#define LAYOUT_PROBE_SCRATCH ".holdfast/probe/"

#endif
