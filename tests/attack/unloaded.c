/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program that loads librdmacm.so.1 with dlopen(), makes a queue pair, and unloads the library
 * with dlclose() while the NIC's threads run; then it forks, waits, and repeats all of this.
 * Threads whose code was unmapped would end it by SIGSEGV.
 */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 3, THREADS_RUN_US = 300000 };

#define CHECK(condition)                                                                    \
	do {                                                                                \
		if (!(condition)) {                                                         \
			fprintf(stderr, "failed: line %d: %s: %m\n", __LINE__, #condition); \
			exit(EXIT_FAILURE);                                                 \
		}                                                                           \
	} while (0)

static void *library;

static void *symbol(const char *name)
{
	void *found = dlsym(library, name);

	if (!found)
		fprintf(stderr, "failed: %s\n", dlerror());
	CHECK(found);
	return found;
}

#define CALL(name) (*(__typeof__(&(name)))symbol(#name))

static void load(void)
{
	library = dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL);
	CHECK(library);
}

/* Its verbs, which librdmacm.so.1 has loaded. Everything stays open. */
static void make_queue_pair(void)
{
	struct ibv_device **devices = CALL(ibv_get_device_list)(NULL);
	struct ibv_qp_init_attr init = {
		.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_context *context;
	struct ibv_comp_channel *channel;

	CHECK(devices && devices[0]);
	context = CALL(ibv_open_device)(devices[0]);
	CHECK(context);
	channel = CALL(ibv_create_comp_channel)(context);
	CHECK(channel);
	init.send_cq = CALL(ibv_create_cq)(context, 1, NULL, channel, 0);
	CHECK(init.send_cq);
	init.recv_cq = init.send_cq;
	CHECK(CALL(ibv_create_qp)(CALL(ibv_alloc_pd)(context), &init));
	CALL(ibv_free_device_list)(devices);
}

static void fork_once(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(EXIT_SUCCESS);
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
}

int main(void)
{
	for (int round = 0; round < ROUNDS; round++) {
		load();
		make_queue_pair();
		CHECK(dlclose(library) == 0);
		usleep(THREADS_RUN_US);
		fork_once();
	}
	printf("%d times unloaded\n", ROUNDS);
	return EXIT_SUCCESS;
}
