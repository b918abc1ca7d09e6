# SPDX-License-Identifier: Apache-2.0
# The full round trip of Beaneater (Debian: ruby-beaneater) against the server at HOST PORT.

require 'beaneater'
require 'timeout'

abort "usage: #{$PROGRAM_NAME} HOST PORT" unless ARGV.size == 2
ADDRESS = ARGV.join(':').freeze
STEP_LIMIT_S = 15

$steps = 0

def step(name, &action)
  Timeout.timeout(STEP_LIMIT_S, &action)
  $steps += 1
rescue Exception => e # rubocop:disable Lint/RescueException -- a Timeout is not a StandardError
  warn "FAIL  #{name}: #{e.class}: #{e.message}\n#{e.backtrace.first(5).join("\n")}"
  exit! 1
end

def same(expected, actual, what = '')
  return if expected == actual

  raise "#{what} expected #{expected.inspect[0, 200]}, received #{actual.inspect[0, 200]}".lstrip
end

def refused(error)
  yield
rescue error
  nil
else
  raise "expected #{error}, but it was done"
end

# Waits for what another connection causes.
def wait_until
  sleep 0.01 until yield
end

def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

client = Beaneater.new(ADDRESS)
other = Beaneater.new(ADDRESS)
tube = client.tubes['beaneater']
others = other.tubes['beaneater']
job = nil

step 'use, watch, ignore' do
  same 'default', client.tubes.used.name
  same ['default'], client.tubes.watched.map(&:name)
  client.tubes.use('beaneater')
  same 'beaneater', client.tubes.used.name
  client.tubes.watch!('beaneater')
  same ['beaneater'], client.tubes.watched.map(&:name)
  refused(Beaneater::NotIgnoredError) { client.tubes.ignore('beaneater') }
end

step 'put and reserve' do
  put = tube.put('hello', pri: 7, ttr: 60)
  same 'INSERTED', put[:status]
  job = client.tubes.reserve
  same put[:id], job.id
  same 'hello', job.body
  same true, job.reserved?
end

step 'stats of a reserved job' do
  stats = job.stats
  same job.id, stats.id.to_s
  same 'beaneater', stats.tube
  same 'reserved', stats.state
  same 7, stats.pri
  same 60, stats.ttr
  same 0, stats.delay
  same 1, stats.reserves
  same true, (50..59).cover?(stats.time_left), 'time-left in 50..59:'
  same 'beaneater', job.tube
end

step 'touch' do
  same 'TOUCHED', job.touch[:status]
  refused(Beaneater::NotFoundError) { other.connection.transmit("touch #{job.id}") }
end

step "a reserved job is its holder's" do
  seen = other.jobs.find(job.id)
  same 'hello', seen.body
  refused(Beaneater::NotFoundError) { seen.delete }
  refused(Beaneater::NotFoundError) { seen.release }
  refused(Beaneater::NotFoundError) { seen.bury }
  refused(Beaneater::NotFoundError) { other.connection.transmit("reserve-job #{job.id}") }
end

step 'release with a delay, kick-job' do
  same 'RELEASED', job.release(pri: 9, delay: 100)[:status]
  same 'delayed', job.stats.state
  same job.id, tube.peek(:delayed).id
  refused(Beaneater::TimedOutError) { client.tubes.reserve(0) }
  same 'KICKED', job.kick[:status]
  refused(Beaneater::NotFoundError) { job.kick }
  same job.id, tube.peek(:ready).id
end

step 'bury, kick' do
  job = client.tubes.reserve(5)
  same 'BURIED', job.bury(pri: 3)[:status]
  same 'hello', tube.peek(:buried).body
  same '1', tube.kick(10)[:id]
  same nil, tube.peek(:buried)
  same 3, job.pri
end

step 'release without a delay, reserve-job, delete' do
  job = client.tubes.reserve
  job.release(pri: 3, delay: 0)
  # Beaneater has no method for reserve-job.
  taken = Beaneater::Job.new(other, other.connection.transmit("reserve-job #{job.id}"))
  same 'hello', taken.body
  same 'DELETED', taken.delete[:status]
  refused(Beaneater::NotFoundError) { taken.delete }
  same nil, client.jobs.find(job.id)
  same false, job.exists?
end

step 'priorities' do
  tube.put('late', pri: 4_294_967_295)
  tube.put('soon', pri: 0)
  tube.put('middle', pri: 1024)
  %w[soon middle late].each do |body|
    reserved = client.tubes.reserve
    same body, reserved.body
    reserved.delete
  end
end

step 'a delayed job comes in time, and never early' do
  put_at = now
  put = tube.put('delayed', delay: 1)
  refused(Beaneater::TimedOutError) { client.tubes.reserve(0) }
  reserved = client.tubes.reserve(10)
  took = now - put_at
  same put[:id], reserved.id
  same true, took >= 1.0 && took < 3.0, "after #{took} s:"
  reserved.delete
end

step 'a waiting client is served' do
  waiting = Thread.new { client.tubes.reserve }
  wait_until { others.stats.current_waiting == 1 }
  put = others.put('for the waiting')
  same put[:id], waiting.value.id
  waiting.value.delete
end

step 'DEADLINE_SOON' do
  tube.put('short', ttr: 1)
  short = client.tubes.reserve
  refused(Beaneater::DeadlineSoonError) { client.tubes.reserve(5) }
  short.delete
end

step 'a ttr that ends' do
  tube.put('short', ttr: 1)
  short = client.tubes.reserve
  sleep 1.2
  client.tubes.used
  wait_until { short.stats.state == 'ready' }
  refused(Beaneater::NotFoundError) { short.touch }
  same 1, short.stats.timeouts
  short.delete
end

step 'pause-tube' do
  put = tube.put('paused')
  same 'PAUSED', tube.pause(1000)[:status]
  refused(Beaneater::TimedOutError) { client.tubes.reserve(0) }
  same 1000, tube.stats.pause
  waiting = Thread.new { client.tubes.reserve }
  wait_until { others.stats.current_waiting == 1 }
  others.pause(0)
  same put[:id], waiting.value.id
  waiting.value.delete
  refused(Beaneater::NotFoundError) { client.tubes['beaneater-nowhere'].pause(1) }
end

step 'stats and stats-tube' do
  stats = client.stats
  %w[current_jobs_ready cmd_put total_jobs pid uptime current_connections].each do |key|
    same true, stats[key].is_a?(Integer), "#{key} is an integer:"
  end
  same 65_535, stats.max_job_size
  same false, stats.draining
  same true, stats.version.to_s.match?(/\d/), 'version has a number:'
  of_tube = tube.stats
  same 'beaneater', of_tube.name
  same 0, of_tube.current_jobs_ready
  same 2, of_tube.current_using
  same 1, of_tube.current_watching
  refused(Beaneater::NotFoundError) { client.tubes['beaneater-nowhere'].stats }
  same true, client.tubes.all.map(&:name).include?('beaneater')
end

step 'the largest body, and one too large' do
  body = 'x' * 65_535
  tube.put(body)
  reserved = client.tubes.reserve
  same body, reserved.body
  reserved.delete
  refused(Beaneater::JobTooBigError) { tube.put('x' * 65_536) }
  same 'beaneater', client.tubes.used.name
end

step 'a binary body' do
  bytes = (0..255).to_a.pack('C*')
  ["\r\n".b, "#{bytes}\r\n\0\r\n#{bytes}".b].each do |body|
    tube.put(body)
    same body, tube.peek(:ready).body.b
    reserved = client.tubes.reserve
    same body, reserved.body.b
    reserved.delete
  end
end

step 'errors' do
  refused(Beaneater::InvalidTubeName) { client.tubes.watch('-beaneater') }
  refused(Beaneater::BadFormatError) { client.connection.transmit('peek -1') }
  refused(Beaneater::UnknownCommandError) { client.connection.transmit('hello') }
  refused(Beaneater::ExpectedCrlfError) { client.connection.transmit("put 0 0 60 1\r\nx!") }
  refused(Beaneater::UnknownCommandError) { client.connection.transmit('') }
  same 'beaneater', client.tubes.used.name
end

step 'clear' do
  tube.put('ready')
  tube.put('delayed', delay: 100)
  tube.put('to bury', pri: 0)
  client.tubes.reserve.bury
  tube.clear
  same 0, tube.stats.current_jobs_ready
  same 0, tube.stats.current_jobs_delayed
  same 0, tube.stats.current_jobs_buried
end

step 'closing gives jobs back, and reconnecting goes on' do
  tube.put('held', pri: 5)
  held = client.tubes.reserve
  client.close
  wait_until { other.jobs.find(held.id).stats.state == 'ready' }
  client = Beaneater.new(ADDRESS)
  same 'default', client.tubes.used.name
  client.tubes.watch!('beaneater')
  same held.id, client.tubes.reserve(5).id
  client.jobs.find(held.id).delete
end

step 'a lost connection is made anew' do
  client.tubes.use('beaneater')
  client.connection.connection.write("quit\r\n") # the server closes
  same 'beaneater', client.tubes.used.name
  same ['beaneater'], client.tubes.watched.map(&:name)
end

step 'its worker loop' do
  worked = []
  10.times { |number| others.put("work #{number}") }
  client.jobs.register('beaneater') do |work|
    worked << work.body
    client.jobs.stop! if worked.size == 10
  end
  client.jobs.process!(reserve_timeout: 5)
  same((0..9).map { |number| "work #{number}" }, worked)
  same 0, others.stats.current_jobs_ready
end

client.close
other.close
puts "ok    beaneater: #{$steps} steps"
