/* SPDX-License-Identifier: Apache-2.0 */
/* scale_report.h: `holdfast-sim scale [OPTION...]`: one run of the workload `scale` with a fleet of
 * the given size, and its figures. */
#ifndef SIM_SCALE_REPORT_H
#define SIM_SCALE_REPORT_H

/* The exit status of the program. argv[1] is "scale". Usage errors and --help end the program. */
int scale_main(int argc, char **argv);

#endif
