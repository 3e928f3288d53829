import CallTestKit
import Synchronization

/// An HTTP server on a free port of the loopback that answers by a script and keeps what it received.
final class LoopbackHTTPServer: Sendable {
  private final class Log: Sendable {
    let requests = Mutex<[SimulatedRequest]>([])
  }

  private let server: SimulatedHTTPServer
  private let log: Log

  /// - Parameters:
  ///   - authority: signs its certificate; nil: no TLS.
  ///   - answer: the reply to a request, by the number of requests before it.
  static func start(
    authority: LoopbackAuthority? = nil,
    _ answer: @escaping @Sendable (SimulatedRequest, Int) -> SimulatedReply
  ) async throws -> LoopbackHTTPServer {
    let log = Log()
    let server = try await SimulatedHTTPServer.start(authority: authority, protocols: ["http/1.1"])
    { request in
      let before = log.requests.withLock {
        $0.append(request)
        return $0.count - 1
      }
      return answer(request, before)
    }
    return LoopbackHTTPServer(server: server, log: log)
  }

  private init(server: SimulatedHTTPServer, log: Log) {
    self.server = server
    self.log = log
  }

  var port: Int { server.port }
  var address: String { "ws://127.0.0.1:\(port)" }
  var requests: [SimulatedRequest] { log.requests.withLock { $0 } }

  func stop() async { await server.stop() }
}

extension SimulatedReply {
  static func status(_ status: Int, _ body: String) -> Self { .answer(status: status, body: body) }
}
