<?php
// SPDX-License-Identifier: Apache-2.0
// Pheanstalk logs in to the server at HOST PORT with TOKEN, as any client can.

declare(strict_types=1);

require 'Pheanstalk/autoload.php';

use Pheanstalk\Exception\ServerBadFormatException;
use Pheanstalk\Exception\ServerUnknownCommandException;
use Pheanstalk\Pheanstalk;

[, $host, $port, $token] = $argv;
$client = Pheanstalk::create($host, (int) $port);

function refused(string $class, callable $action): void
{
    try {
        $action();
    } catch (Throwable $error) {
        if ($error instanceof $class) {
            return;
        }
        throw $error;
    }
    throw new LogicException("expected $class, but it was done");
}

refused(ServerUnknownCommandException::class, function () use ($client) {
    $client->put('too early');
});
refused(ServerBadFormatException::class, function () use ($client) {
    $client->useTube('login;wrong');
});
$client->useTube("login;$token");
$client->useTube('php');
$client->watchOnly('php');
$job = $client->put('hello');
$reserved = $client->reserveWithTimeout(5);
if ($reserved->getId() !== $job->getId() || $reserved->getData() !== 'hello') {
    throw new LogicException('another job');
}
$client->delete($reserved);
