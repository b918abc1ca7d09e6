<?php
// SPDX-License-Identifier: Apache-2.0
// The full round trip of Pheanstalk (Debian: php-pda-pheanstalk) against the server at HOST PORT,
// and the calls that Laravel's queue driver makes.

declare(strict_types=1);

require 'Pheanstalk/autoload.php';

use Pheanstalk\Exception\DeadlineSoonException;
use Pheanstalk\Exception\JobNotFoundException;
use Pheanstalk\Exception\JobTooBigException;
use Pheanstalk\Exception\ServerBadFormatException;
use Pheanstalk\Exception\ServerException;
use Pheanstalk\JobId;
use Pheanstalk\Pheanstalk;

if ($argc !== 3 || !ctype_digit($argv[2])) {
    fwrite(STDERR, "usage: {$argv[0]} HOST PORT\n");
    exit(2);
}
[, $host, $port] = $argv;

$steps = 0;

function step(string $name, callable $action): void
{
    global $steps;
    try {
        $action();
    } catch (Throwable $error) {
        fwrite(STDERR, "FAIL  $name: " . get_class($error) . ": {$error->getMessage()} (line "
            . "{$error->getLine()})\n{$error->getTraceAsString()}\n");
        exit(1);
    }
    $steps++;
}

function same($expected, $actual, string $what = ''): void
{
    if ($expected !== $actual) {
        throw new LogicException(trim("$what expected " . shown($expected) . ', received '
            . shown($actual)));
    }
}

function shown($value): string
{
    $text = var_export($value, true);
    return strlen($text) > 200 ? substr($text, 0, 200) . '...' : $text;
}

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

/** Waits for what another connection causes. */
function until(callable $holds): void
{
    for ($i = 0; !$holds(); $i++) {
        if ($i === 500) {
            throw new LogicException('not within 5 s');
        }
        usleep(10000);
    }
}

/** This Pheanstalk keeps the quotes that servers put around strings since beanstalkd 1.13. */
function unquoted(string $value): string
{
    return trim($value, '"');
}

$client = Pheanstalk::create($host, (int)$port);
$other = Pheanstalk::create($host, (int)$port);
$tube = 'pheanstalk';
/** @var \Pheanstalk\Job|null $job */
$job = null;

step('use, watch, ignore', function () use ($client, $other, $tube) {
    same('default', $client->listTubeUsed(true));
    $client->useTube($tube)->watch($tube)->ignore('default');
    same($tube, $client->listTubeUsed(true));
    same([$tube], $client->listTubesWatched(true));
    refused(ServerException::class, fn () => $client->ignore($tube)); // NOT_IGNORED
    $other->useTube($tube);
});

step('put and reserve', function () use ($client, &$job) {
    $put = $client->put('hello', 7, 0, 60);
    $job = $client->reserve();
    same($put->getId(), $job->getId());
    same('hello', $job->getData());
});

step('stats of a reserved job', function () use ($client, $tube, &$job) {
    $stats = $client->statsJob($job);
    same((string)$job->getId(), $stats['id']);
    same($tube, unquoted($stats['tube']));
    same('reserved', $stats['state']);
    same('7', $stats['pri']);
    same('60', $stats['ttr']);
    same('1', $stats['reserves']);
    foreach (['age', 'delay', 'time-left', 'file', 'timeouts', 'releases', 'buries',
        'kicks'] as $key) {
        same(1, preg_match('/^\d+$/', $stats[$key]), $key);
    }
});

step('touch', function () use ($client, $other, &$job) {
    $client->touch($job);
    refused(JobNotFoundException::class, fn () => $other->touch($job));
});

step("a reserved job is its holder's", function () use ($other, &$job) {
    refused(JobNotFoundException::class, fn () => $other->delete($job));
    refused(JobNotFoundException::class, fn () => $other->release($job));
    refused(JobNotFoundException::class, fn () => $other->bury($job));
    same('hello', $other->peek($job)->getData());
});

step('release with a delay, kick-job', function () use ($client, &$job) {
    $client->release($job, 9, 100);
    same('delayed', $client->statsJob($job)['state']);
    same($job->getId(), $client->peekDelayed()->getId());
    same(null, $client->reserveWithTimeout(0));
    $client->kickJob($job);
    refused(JobNotFoundException::class, fn () => $client->kickJob($job));
    same($job->getId(), $client->peekReady()->getId());
});

step('bury, kick', function () use ($client, &$job) {
    same($job->getId(), $client->reserveWithTimeout(5)->getId());
    $client->bury($job, 3);
    same('hello', $client->peekBuried()->getData());
    same(1, $client->kick(10));
    same(null, $client->peekBuried());
    same('3', $client->statsJob($job)['pri']);
});

step('release without a delay, delete', function () use ($client, &$job) {
    same($job->getId(), $client->reserve()->getId());
    $client->release($job, 3, 0);
    same($job->getId(), $client->reserve()->getId());
    $client->delete($job);
    refused(JobNotFoundException::class, fn () => $client->delete($job));
    refused(JobNotFoundException::class, fn () => $client->peek($job));
    refused(ServerException::class, fn () => $client->statsJob($job));
});

step('priorities', function () use ($client) {
    $client->put('late', 4294967295);
    $client->put('soon', 0);
    $client->put('middle', 1024);
    foreach (['soon', 'middle', 'late'] as $body) {
        $reserved = $client->reserve();
        same($body, $reserved->getData());
        $client->delete($reserved);
    }
});

step('a delayed job comes in time, and never early', function () use ($client) {
    $put_at = microtime(true);
    $put = $client->put('delayed', 0, 1);
    same(null, $client->reserveWithTimeout(0));
    $reserved = $client->reserveWithTimeout(10);
    $took = microtime(true) - $put_at;
    same($put->getId(), $reserved->getId());
    same(true, $took >= 1.0 && $took < 3.0, "after $took s");
    $client->delete($reserved);
});

step('DEADLINE_SOON', function () use ($client) {
    $short = $client->put('short', 0, 0, 1);
    same($short->getId(), $client->reserve()->getId());
    refused(DeadlineSoonException::class, fn () => $client->reserveWithTimeout(5));
    $client->delete($short);
});

step('a ttr that ends', function () use ($client) {
    $short = $client->put('short', 0, 0, 1);
    same($short->getId(), $client->reserve()->getId());
    usleep(1200000);
    $client->listTubeUsed(true);
    until(fn () => $client->statsJob($short)['state'] === 'ready');
    refused(JobNotFoundException::class, fn () => $client->touch($short));
    same('1', $client->statsJob($short)['timeouts']);
    $client->delete($short);
});

step('pause-tube', function () use ($client, $other, $tube) {
    $paused = $client->put('paused');
    $client->pauseTube($tube, 1000);
    same(null, $client->reserveWithTimeout(0));
    same('1000', $client->statsTube($tube)['pause']);
    $other->resumeTube($tube);
    same($paused->getId(), $client->reserveWithTimeout(5)->getId());
    $client->delete($paused);
    refused(ServerException::class, fn () => $client->pauseTube('pheanstalk-nowhere', 1));
});

step('stats and stats-tube', function () use ($client, $tube) {
    $stats = $client->stats();
    // What later versions of Pheanstalk insist on, every one.
    foreach ([
        'current-jobs-urgent', 'current-jobs-ready', 'current-jobs-reserved',
        'current-jobs-delayed', 'current-jobs-buried',
        'cmd-put', 'cmd-peek', 'cmd-peek-ready', 'cmd-peek-delayed',
        'cmd-peek-buried', 'cmd-reserve', 'cmd-reserve-with-timeout', 'cmd-touch', 'cmd-use',
        'cmd-watch', 'cmd-ignore', 'cmd-delete', 'cmd-release', 'cmd-bury', 'cmd-kick', 'cmd-stats',
        'cmd-stats-job', 'cmd-stats-tube', 'cmd-list-tubes', 'cmd-list-tube-used',
        'cmd-list-tubes-watched', 'cmd-pause-tube', 'job-timeouts', 'total-jobs', 'max-job-size',
        'current-tubes', 'current-connections', 'current-producers', 'current-workers',
        'current-waiting', 'total-connections', 'pid', 'uptime', 'binlog-oldest-index',
        'binlog-current-index', 'binlog-max-size', 'binlog-records-written',
        'binlog-records-migrated',
    ] as $key) {
        same(1, preg_match('/^\d+$/', (string)$stats[$key]), $key);
    }
    foreach (['version', 'rusage-utime', 'rusage-stime', 'draining', 'id', 'hostname', 'os',
        'platform'] as $key) {
        same(true, strlen((string)$stats[$key]) > 0, $key);
    }
    $tube_stats = $client->statsTube($tube);
    same($tube, unquoted($tube_stats['name']));
    foreach ([
        'current-jobs-urgent', 'current-jobs-ready', 'current-jobs-reserved',
        'current-jobs-delayed', 'current-jobs-buried',
        'total-jobs', 'current-using', 'current-watching', 'current-waiting',
        'cmd-delete', 'cmd-pause-tube', 'pause', 'pause-time-left',
    ] as $key) {
        same(1, preg_match('/^\d+$/', (string)$tube_stats[$key]), $key);
    }
    refused(ServerException::class, fn () => $client->statsTube('pheanstalk-nowhere'));
    same(true, in_array($tube, $client->listTubes(), true));
});

step('the largest body, and one too large', function () use ($client) {
    $body = str_repeat('x', 65535);
    $client->put($body);
    $reserved = $client->reserve();
    same($body, $reserved->getData());
    $client->delete($reserved);
    refused(JobTooBigException::class, fn () => $client->put(str_repeat('x', 65536)));
    same('pheanstalk', $client->listTubeUsed(true));
});

step('an empty and a binary body', function () use ($client) {
    $bytes = implode('', array_map('chr', range(0, 255)));
    foreach (['', "\r\n", "$bytes\r\n\0\r\n$bytes"] as $body) {
        $client->put($body);
        same($body, $client->peekReady()->getData());
        $reserved = $client->reserve();
        same($body, $reserved->getData());
        $client->delete($reserved);
    }
});

step('errors', function () use ($client) {
    refused(ServerBadFormatException::class, fn () => $client->useTube('-pheanstalk'));
    refused(ServerBadFormatException::class, fn () => $client->watch('pheanstalk pheanstalk'));
    refused(JobNotFoundException::class, fn () => $client->peek(new JobId(999999999)));
    same('pheanstalk', $client->listTubeUsed(true));
});

step('closing gives jobs back, and reconnecting', function () use ($host, $port, $other, $tube) {
    $held = $other->put('held', 5, 0, 60);
    $closing = Pheanstalk::create($host, (int)$port)->watchOnly($tube);
    same($held->getId(), $closing->reserve()->getId());
    same('reserved', $other->statsJob($held)['state']);
    unset($closing);
    gc_collect_cycles();
    until(fn () => $other->statsJob($held)['state'] === 'ready');
    $again = Pheanstalk::create($host, (int)$port)->watchOnly($tube);
    same($held->getId(), $again->reserveWithTimeout(5)->getId());
    $again->delete($held);
});

step("the calls of Laravel's queue driver", function () use ($host, $port) {
    $queue = Pheanstalk::create($host, (int)$port);
    $body = json_encode(['job' => 'App\\Jobs\\Unpaid', 'data' => ['order' => 17]]);
    // push, later, size
    $queue->useTube('laravel')->put($body, Pheanstalk::DEFAULT_PRIORITY, 0, 60);
    $queue->useTube('laravel')->put($body, Pheanstalk::DEFAULT_PRIORITY, 1, 60);
    $stats = $queue->statsTube('laravel');
    same(1, (int)$stats['current-jobs-ready']);
    same(1, (int)$stats['current-jobs-delayed']);
    same(0, (int)$stats['current-jobs-reserved']);
    // pop, attempts, release
    $popped = $queue->watchOnly('laravel')->reserveWithTimeout(0);
    same(['laravel'], $queue->listTubesWatched(true));
    same($body, $popped->getData());
    same(1, (int)$queue->statsJob($popped)['reserves']);
    $queue->release($popped, Pheanstalk::DEFAULT_PRIORITY, 0);
    $popped = $queue->watchOnly('laravel')->reserveWithTimeout(0);
    same(2, (int)$queue->statsJob($popped)['reserves']);
    // fail for good, then the delayed one
    $queue->bury($popped);
    $late = $queue->reserveWithTimeout(5);
    same($body, $late->getData());
    $queue->delete($late);
    $queue->useTube('laravel')->delete(new JobId($popped->getId()));
    same(0, (int)$queue->statsTube('laravel')['current-jobs-buried']);
});

echo "ok    pheanstalk: $steps steps\n";
