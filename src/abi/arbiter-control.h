/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The control socket of the arbiter: RUN_DIR/CONTROL_SOCKET, a SOCK_STREAM socket of mode 0600 for
 * root (and for the user that the arbiter runs as). JSON objects, one a line ("\n"), UTF-8, at most
 * CONTROL_LINE_MAX bytes a line towards the arbiter and CONTROL_ANSWER_MAX from it. Unknown keys are
 * ignored by both ends. A line that is none of these is answered by
 *
 *	{"op": "error", "reason": "..."}
 *
 * and the connection ends after it. GPUs are named by their UUID as NVML writes it ("GPU-..." or
 * "MIG-..."), in any case of the letters; memory is bytes; PIDs are those of the node's (the
 * arbiter's) PID namespace where not said otherwise.
 *
 * status. At any time, on any connection; answered at once and in order:
 *
 *	> {"op": "status"}                      all slices
 *	> {"op": "status", "slice": "<id>"}     that one; "slices" is empty if there is none
 *	< {"op": "status", "version": 1,
 *	   "readings": {"subscribed": true,     // an agent is there that reads NVML
 *	                "age_ms": 120},         // of the last reading; null: none yet
 *	   "gpus": [{"uuid": "GPU-...",         // those on which slices take turns
 *	             "busy_ns": 0,              // of their time: anybody of these slices had work there
 *	             "together": false}],       // true: no turns now, as they would leave the GPU idle
 *	   "slices": [
 *	     {"id": "<32 hex digits>", "resource": "nvidia.com/gpu", "devices": ["GPU-...::0"],
 *	      "unhooked": "report",             // the policy, as in slice.json
 *	      "gone": false,                    // true: its directory is, its processes are not yet
 *	      "error": null,                    // or why the present slice.json is not in force
 *	      "stopped": 0,                     // unhooked processes that were killed
 *	      "compute": "turns",               // or "mps": runs under MPS; null: neither, no TIME is counted
 *	      "compute_error": null,            // or why it takes none although it should, or not all
 *	                                        // of its processes do
 *	      "class": "batch",                 // or "latency"
 *	      "gpus": [{"uuid": "GPU-...",
 *	        "limit": 4294967296,            // null: none
 *	        "used": 0,                      // by its processes, those past the libraries included
 *	        "peak": 0,                      // the most that "used" was
 *	        "granted": 0,                   // set aside for its processes; used <= granted
 *	        "unhooked_used": 0,             // part of "used": processes past the libraries; null: none of
 *	                                        // this arbiter's readings was of the GPU yet
 *	        "refusals": 0,                  // calls that failed as the limit leaves no room (below)
 *	        "over": false,                  // more is granted than the limit: it was lowered, or the
 *	                                        // driver took more than could be known beforehand
 *	                                        // with turns or MPS, or after it had them, also TIME (below) and:
 *	        "weight": 1,                    // this and the two that follow: under MPS as slice.json says, and
 *	        "cap": null,                    // nobody is held by it; or millionths of the GPU
 *	        "turn": true,                   // has the turn now
 *	        "demoted": false,               // of class latency, but beyond its share now
 *	        "stuck": false,                 // has work that did not end in 10 s since its turn ended,
 *	                                        // or a process of it is stopped
 *	        "turns": 0,                     // that it has had
 *	        "quantum_ends": {"expired": 0}, // and why they ended: a number for each reason (below)
 *	        "revocations": 0,               // times that it was taken off the GPU at work (below)
 *	        "queue_ns": 0}],                // in which some process of it wanted and had no turn
 *	      "processes": [
 *	        {"pid": 7,                      // in its own PID namespace
 *	         "host_pid": 4711, "name": "python3",
 *	         "connected": true,             // false: its connection ended and it has not come back
 *	         "ended": false,                // true: it is gone, but a child of it keeps its memory
 *	         "mps": null,                   // true: the driver runs it under MPS; false: not, on one of its
 *	                                        // GPUs at least; null: it has no context yet, or does not say
 *	         "used": 0, "peak": 0,          // sums over its GPUs
 *	         "gpus": [{"uuid": "GPU-...", "used": 0, "granted": 0, "peak": 0,
 *	           "overhead": 0,               // part of "used" that no hook charged
 *	           "physical": 0,               // what NVML said last; null: nothing yet
 *	                                        // with turns also TIME, and:
 *	           "stuck": false}]}],          // nothing of its work ends, for 10 s since its gate closed
 *	      "unhooked_processes": [           // null: none of this arbiter's readings was of its GPUs yet
 *	        {"host_pid": 4712, "name": "nvtool",
 *	         "gpus": [{"uuid": "GPU-...", "used": 0}]}]}]}
 *
 * "refusals" are calls in processes of the slice (an allocation, a context, a module) that ended with "out of
 * memory" because of its limit on the GPU: one for each call, however often the library asked in it; none where the
 * arbiter did not answer, nor where the driver itself had no memory. "revocations" are the times that the gates of
 * the slice on the GPU closed while a process of it had work in flight there, or wanted to submit more: its turn
 * was over, one of class latency or one that is urged came in between, it was demoted, its bucket was empty, or going
 * together ended. A turn that ends because nobody of the slice has anything to do is none, nor is one that goes on
 * behind the last. The reasons of "quantum_ends" are those of model/sched/quantum-end.h; one that was interrupted and
 * goes on ends a second time.
 *
 * TIME is seven keys, of a slice on one GPU and of a process there. None of them ever becomes less, nor "turns",
 * "queue_ns", "refusals" and "revocations" do, whatever ends or is killed, until the slice's directory is removed or
 * the node starts again:
 *
 *	"charged_ns": 0,   // GPU time. The sum over all slices of a GPU, those that are gone too, is its "busy_ns"
 *	"launches": 0,     // submissions: kernels and graphs
 *	"copies": 0,       // and copies, fills, batches, host functions and the like,
 *	"bytes": 0,        // and their bytes
 *	"waits": 0,        // submissions that waited for a turn,
 *	"wait_ns": 0,      // so long, all threads together
 *	"meter_ns": 0      // threads waited in their own turn, for the end of work before
 *
 * Of a process they begin with its registration; what the slice has is the sum of those that are there and
 * of those that have ended.
 *
 * "processes" has one entry for each process, also where it registered several times (dlmopen); it
 * holds the GPUs on which anything is or was used, or on which it takes turns. Processes that only look have no entry.
 *
 * readings. A connection becomes the source of NVML's figures. There is one at a time: a newer one
 * replaces the older, whose connection ends.
 *
 *	> {"op": "readings"}
 *	< {"op": "subscribed"}
 *
 * From then on the arbiter asks, never again before the last one was answered or CONTROL_READ_WAIT_MS
 * are over: every CONTROL_READ_EVERY_MS while a process is registered, every CONTROL_READ_IDLE_MS
 * while there are slices without any (there may be processes past the libraries), and
 * CONTROL_READ_SOON_MS after SLICE_COMPARE.
 *
 *	< {"op": "read", "seq": 17, "gpus": ["GPU-...", "MIG-..."]}
 *	> {"op": "reading", "seq": 17, "gpus": [
 *	    {"uuid": "GPU-...", "processes": [{"pid": 4711, "bytes": 543162368}]}]}
 *
 * The agent must begin to ask NVML after it has the "read", not answer from something older: the
 * arbiter takes the figures as true for a moment between its question and the answer, and leaves
 * those out whose process did anything meanwhile. An entry for each process that NVML has on that GPU,
 * compute and graphics; one that is in both lists stands there once, with the larger figure. Without
 * "bytes": NVML does not know the figure (this process is then left out). A GPU that could not be read
 * is left out or has "error": "..." in place of "processes"; it is not the same as an empty list, which
 * says that nobody uses it. For a MIG device the figures are those of its instance. "seq" is an
 * integer from 1 to 2^53; an answer with another one than the last asked is ignored.
 */
#define CONTROL_SOCKET        "arbiter.sock"
#define CONTROL_VERSION       1
#define CONTROL_LINE_MAX      (1024 * 1024)
#define CONTROL_ANSWER_MAX    (32 * 1024 * 1024)
#define CONTROL_CLIENTS_MAX   32
#define CONTROL_READ_EVERY_MS 500
#define CONTROL_READ_IDLE_MS  2000
#define CONTROL_READ_SOON_MS  2
#define CONTROL_READ_WAIT_MS  5000
#define CONTROL_GPUS_MAX      256  /* of a reading */
#define CONTROL_PROCESSES_MAX 4096 /* of one GPU in a reading */
