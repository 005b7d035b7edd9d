/* SPDX-License-Identifier: BSD-2-Clause */
#include "urnicd/ready.h"

#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "os/setting.h"

void ready_tell(void)
{
	static const char message[] = "READY=1";
	const char *path = setting_path("NOTIFY_SOCKET");
	struct sockaddr_un manager = {.sun_family = AF_UNIX};
	size_t bytes = path ? strlen(path) : 0;
	int fd;

	if (bytes < 2 || bytes >= sizeof(manager.sun_path) || (path[0] != '/' && path[0] != '@'))
		return;
	memcpy(manager.sun_path, path, bytes);
	/* An abstract name begins with a zero byte, which a variable cannot have. */
	if (path[0] == '@')
		manager.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	(void)sendto(fd, message, sizeof(message) - 1, MSG_NOSIGNAL, (struct sockaddr *)&manager,
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes));
	close(fd);
}
