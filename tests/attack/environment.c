/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One thread of a program changes the environment all the time. Another thread opens devices and
 * makes queue pairs, which starts urnicd, too. getenv() and a walk over environ are not safe then:
 * now and then they read memory that setenv() has freed.
 *
 * To make that certain, `environ` points to unreadable memory from main() on. A library that reads
 * the environment after it was loaded ends the program by SIGSEGV.
 */
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ROUNDS = 20, PAGE_BYTES = 4096 };

static void make_queue_pair(struct ibv_context *context)
{
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_qp *qp;

	init.send_cq = ibv_create_cq(context, 1, NULL, NULL, 0);
	init.recv_cq = init.send_cq;
	qp = pd && init.send_cq ? ibv_create_qp(pd, &init) : NULL;
	if (!qp) {
		perror("failed: no queue pair");
		_exit(EXIT_FAILURE);
	}
	ibv_destroy_qp(qp);
	ibv_destroy_cq(init.send_cq);
	ibv_dealloc_pd(pd);
}

static void open_and_close(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context = devices && devices[0] ? ibv_open_device(devices[0]) : NULL;

	if (!context) {
		perror("failed: no device");
		_exit(EXIT_FAILURE);
	}
	ibv_free_device_list(devices);
	make_queue_pair(context);
	ibv_close_device(context);
}

static void *change_environment(void *stop)
{
	char name[32];

	for (unsigned i = 0; !__atomic_load_n((int *)stop, __ATOMIC_RELAXED); i++) {
		snprintf(name, sizeof(name), "ANOTHER_%u", i % 4096);
		setenv(name, "and more, and more, and more", 1);
		if (i % 4096 == 4095)
			clearenv();
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int stop = 0;
	pthread_t thread;

	if (argc > 1 && strcmp(argv[1], "unreadable") == 0) {
		environ = mmap(NULL, PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	} else if (pthread_create(&thread, NULL, change_environment, &stop) != 0) {
		perror("failed: no thread");
		return EXIT_FAILURE;
	}
	for (int i = 0; i < ROUNDS; i++)
		open_and_close();
	_exit(EXIT_SUCCESS);
}
