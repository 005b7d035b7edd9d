/* SPDX-License-Identifier: BSD-2-Clause */
#include "urnicd/ready.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "os/setting.h"

/* The manager's address. Returns its length; 0: there is no manager. */
static socklen_t manager_address(struct sockaddr_un *ret_address)
{
	const char *path = setting_path("NOTIFY_SOCKET");
	size_t bytes = path ? strlen(path) : 0;

	*ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (bytes < 2 || bytes >= sizeof(ret_address->sun_path) ||
		(path[0] != '/' && path[0] != '@'))
		return 0;
	memcpy(ret_address->sun_path, path, bytes);
	/* An abstract name begins with a zero byte, which a variable cannot have. */
	if (path[0] == '@')
		ret_address->sun_path[0] = '\0';
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes);
}

/* Send a text, and a descriptor unless it is negative. */
static void manager_send(const char *text, int passed)
{
	_Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(sizeof(passed))] = {0};
	struct iovec iov = {(void *)text, strlen(text)};
	struct sockaddr_un address;
	struct msghdr message = {
		.msg_name = &address,
		.msg_namelen = manager_address(&address),
		.msg_iov = &iov,
		.msg_iovlen = 1,
	};
	int fd;

	if (!message.msg_namelen)
		return;
	if (passed >= 0) {
		message.msg_control = control;
		message.msg_controllen = sizeof(control);
		*CMSG_FIRSTHDR(&message) = (struct cmsghdr){
			.cmsg_len = CMSG_LEN(sizeof(passed)),
			.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS,
		};
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), &passed, sizeof(passed));
	}
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	(void)sendmsg(fd, &message, MSG_NOSIGNAL);
	close(fd);
}

bool ready_has_manager(void)
{
	struct sockaddr_un address;

	return manager_address(&address) != 0;
}

void ready_tell(void)
{
	manager_send("READY=1", -1);
}

void ready_keep(const char *name, int fd)
{
	char text[64];

	/* Without FDPOLL=0 the manager forgets a descriptor that reports an error or a hang-up. */
	snprintf(text, sizeof(text), "FDSTORE=1\nFDPOLL=0\nFDNAME=%s", name);
	manager_send(text, fd);
}

void ready_forget(const char *name)
{
	char text[64];

	snprintf(text, sizeof(text), "FDSTOREREMOVE=1\nFDNAME=%s", name);
	manager_send(text, -1);
}
