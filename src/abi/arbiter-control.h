/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The control socket of the arbiter: RUN_DIR/CONTROL_SOCKET, a SOCK_STREAM socket of mode 0600. Only root and
 * the user that the arbiter runs as can connect. Each line is one JSON object in UTF-8 that ends with "\n". A
 * line to the arbiter has at most CONTROL_LINE_MAX bytes, a line from it at most CONTROL_ANSWER_MAX. Both ends
 * ignore unknown keys. The arbiter answers a line that is not described here with
 *
 *	{"op": "error", "reason": "..."}
 *
 * and then closes the connection.
 *
 * Units. A GPU is named by its UUID as NVML writes it ("GPU-..." or "MIG-..."), in upper or lower case. Memory
 * is in bytes. A PID is that of the node's (the arbiter's) PID namespace, unless stated otherwise.
 *
 * status. Any connection may send it at any time. The arbiter answers at once and in order:
 *
 *	> {"op": "status"}                      all slices
 *	> {"op": "status", "slice": "<id>"}     one slice; "slices" is empty if there is none with this id
 *	< {"op": "status", "version": 1,
 *	   "readings": {"subscribed": true,     // an agent that reads NVML is connected
 *	                "age_ms": 120},         // age of the last reading; null: none yet
 *	   "gpus": [{"uuid": "GPU-...",         // the GPUs whose time the scheduler counts
 *	             "busy_ns": 0,              // time in which any slice had work there
 *	             "together": false}],       // true: concurrent, as quanta would leave the GPU idle
 *	   "slices": [
 *	     {"id": "<32 hex digits>", "resource": "nvidia.com/gpu", "devices": ["GPU-...::0"],
 *	      "unhooked": "report",             // the policy, as in slice.json
 *	      "gone": false,                    // true: its directory is removed, but processes of it still run
 *	      "error": null,                    // or why the present slice.json is not in force
 *	      "stopped": 0,                     // unhooked processes that the arbiter killed
 *	      "compute": "turns",               // or "mps": runs under MPS; null: neither, no TIME is counted
 *	      "compute_error": null,            // or why the slice, or one of its processes, is not scheduled
 *	                                        // although slice.json has "compute"
 *	      "class": "batch",                 // or "latency"
 *	      "gpus": [{"uuid": "GPU-...",
 *	        "limit": 4294967296,            // null: none
 *	        "used": 0,                      // by its processes, unhooked processes included
 *	        "peak": 0,                      // highest "used"
 *	        "granted": 0,                   // set aside for its processes; used <= granted
 *	        "unhooked_used": 0,             // part of "used": unhooked processes; null: no reading of this
 *	                                        // arbiter covered the GPU yet
 *	        "refusals": 0,                  // calls that failed because of the limit (below)
 *	        "over": false,                  // more is granted than the limit: the limit was lowered, or the
 *	                                        // driver took memory that no hook could know in advance.
 *	                                        // With quanta or MPS, now or earlier, also TIME (below) and:
 *	        "weight": 1,                    // under MPS this key and the next two repeat slice.json, and the
 *	        "cap": null,                    // arbiter does not enforce them. cap: millionths of the GPU
 *	        "turn": true,                   // has the quantum now
 *	        "demoted": false,               // class latency, but ahead of its fair share now
 *	        "stuck": false,                 // has work that did not end in the 10 s since its quantum
 *	                                        // ended, or a process of it is stuck
 *	        "turns": 0,                     // quanta that it has had
 *	        "quantum_ends": {"expired": 0}, // and why they ended: a number for each reason (below)
 *	        "revocations": 0,               // times that its gates closed while it had work (below)
 *	        "queue_ns": 0}],                // time in which a process of it wanted the GPU without a quantum
 *	      "processes": [
 *	        {"pid": 7,                      // in its own PID namespace
 *	         "host_pid": 4711, "name": "python3",
 *	         "connected": true,             // false: its connection ended and it has not returned
 *	         "ended": false,                // true: the process is gone, but a child of it keeps its memory
 *	         "mps": null,                   // true: the driver runs it under MPS; false: not, at least on one
 *	                                        // of its GPUs; null: it has no context yet, or does not report
 *	         "used": 0, "peak": 0,          // sums over its GPUs
 *	         "gpus": [{"uuid": "GPU-...", "used": 0, "granted": 0, "peak": 0,
 *	           "overhead": 0,               // part of "used" that no hook charged
 *	           "physical": 0,               // NVML's last figure; null: none yet
 *	                                        // with quanta or MPS also TIME, and:
 *	           "stuck": false}]}],          // none of its work ended in the 10 s since its gate closed
 *	      "unhooked_processes": [           // null: no reading of this arbiter covered its GPUs yet
 *	        {"host_pid": 4712, "name": "nvtool",
 *	         "gpus": [{"uuid": "GPU-...", "used": 0}]}]}]}
 *
 * Refusals. "refusals" counts calls in processes of the slice: an allocation, a context, a module. They ended
 * with "out of memory" because of the slice's limit on the GPU. A call counts once, however often the library
 * asked the arbiter for it. A call does not count if the arbiter did not answer, or if the driver itself had no
 * memory.
 *
 * Revocations. "revocations" counts how often the gates of the slice on the GPU closed while the slice had work:
 * a process of it had work in flight there, or wanted to submit more. The usual causes are:
 *	- the quantum expired;
 *	- a share of class latency, a boosted share, a share that is behind, or a gang took the GPU;
 *	- the share was demoted;
 *	- the bucket of its cap was empty;
 *	- concurrent operation ended.
 * The end of a quantum is no revocation if the slice has no work, or if another quantum of the same share follows.
 *
 * The reasons in "quantum_ends" are those of model/sched/quantum-end.h. A quantum that was interrupted and
 * resumes ends a second time.
 *
 * TIME is seven keys of a slice on one GPU, and of a process there. They never decrease. The same holds for
 * "turns", "queue_ns", "refusals" and "revocations". No end or kill of a process resets them. They start at 0
 * only when the slice's directory is removed or the node restarts:
 *
 *	"charged_ns": 0,   // GPU time. The sum over all slices of a GPU, removed slices included, is its "busy_ns"
 *	"launches": 0,     // submissions: kernels and graphs
 *	"copies": 0,       // and copies, fills, batches, host functions and the like,
 *	"bytes": 0,        // and their bytes
 *	"waits": 0,        // submissions that waited at the closed gate
 *	"wait_ns": 0,      // time of these waits, sum of all threads
 *	"meter_ns": 0      // time that threads waited in their own quantum for earlier work to end
 *
 * The keys of a process start with its registration. Those of a slice are the sum over its present and past
 * processes.
 *
 * "processes" has one entry for each process, even if the process registered several times (dlmopen). Its "gpus"
 * are those on which the process uses or used memory, or has a client. A process that only reads figures has no
 * entry.
 *
 * readings. A connection becomes the source of NVML's figures. There is one source at a time: when a newer
 * connection asks, the arbiter closes the older one.
 *
 *	> {"op": "readings"}
 *	< {"op": "subscribed"}
 *
 * From then on the arbiter sends "read". It does not send the next one before the agent answered the last one or
 * CONTROL_READ_WAIT_MS have passed. The intervals are:
 *	- CONTROL_READ_EVERY_MS while a process is registered;
 *	- CONTROL_READ_IDLE_MS while there are slices but no registered process, as unhooked processes may be present;
 *	- CONTROL_READ_SOON_MS after SLICE_COMPARE.
 *
 *	< {"op": "read", "seq": 17, "gpus": ["GPU-...", "MIG-..."]}
 *	> {"op": "reading", "seq": 17, "gpus": [
 *	    {"uuid": "GPU-...", "processes": [{"pid": 4711, "bytes": 543162368}]}]}
 *
 *	1. The agent receives "read" and only then calls NVML. It never answers from an older result.
 *	2. The arbiter takes the figures as true for some moment between its "read" and the answer.
 *	3. The arbiter ignores the figure of a process that changed its memory between the two.
 *
 * "processes" has an entry for each process that NVML lists on that GPU, compute and graphics. A process in both
 * lists has one entry, with the larger figure. An entry without "bytes" means that NVML does not know the
 * figure, and the arbiter ignores this process. The agent omits a GPU that it could not read, or gives it
 * "error": "..." instead of "processes". An empty list is different: no process uses the GPU. For a MIG device
 * the figures are those of its instance. "seq" is an integer from 1 to 2^53. The arbiter ignores an answer whose
 * "seq" is not that of its last "read".
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
#define CONTROL_GPUS_MAX      256  /* of one reading */
#define CONTROL_PROCESSES_MAX 4096 /* of one GPU in a reading */
