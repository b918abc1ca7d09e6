# SPDX-License-Identifier: Apache-2.0
# Beaneater logs in to the server at HOST PORT with TOKEN, as any client can.

require 'beaneater'
require 'timeout'

HOST, PORT, TOKEN = ARGV

def refused(error)
  yield
rescue error
  nil
else
  raise "expected #{error}, but it was done"
end

Timeout.timeout(15) do
  client = Beaneater.new("#{HOST}:#{PORT}")
  refused(Beaneater::UnknownCommandError) { client.connection.transmit('list-tubes') }
  refused(Beaneater::InvalidTubeName) { client.tubes.use('login;wrong') } # of BAD_FORMAT
  client.connection.transmit("use login;#{TOKEN}")
  tube = client.tubes['ruby']
  put = tube.put('hello')
  job = tube.reserve(5)
  raise 'another job' unless job.id.to_s == put[:id].to_s && job.body == 'hello'

  job.delete
end
