import CallCore
import CallTestKit
import NIOCore
import NIOHPACK
import NIOHTTP2
import NIOPosix
import NIOSSL
import NIOTLS
import Synchronization

/// A client of APNs with NIOHTTP2, of which the simulator uses only HPACK, so that the two check each other. It waits
/// for the server's first SETTINGS, and opens streams beyond the limit.
struct TestSender: Sendable {
  struct Answer: Sendable, Equatable {
    var status = ""
    var id = ""
    var hasUniqueID = false
    var body = ""
    var order = 0
  }

  enum Fate: Sendable, Equatable {
    case answered(Answer)
    case lost
    var answer: Answer? { if case .answered(let answer) = self { answer } else { nil } }
  }

  let channel: any Channel
  let multiplexer: NIOHTTP2Handler.StreamMultiplexer
  let notes: Notes

  /// The frames that the connection received.
  final class Notes: Sendable {
    struct State {
      var limits: [Int] = []
      var goAways: [(last: HTTP2StreamID, code: HTTP2ErrorCode, debug: String)] = []
      var answers = 0
      var waiters: [(Int, EventLoopPromise<Void>)] = []
      var isClosed = false
    }
    let state = Mutex(State())
    var limits: [Int] { state.withLock { $0.limits } }
    var goAways: [(last: HTTP2StreamID, code: HTTP2ErrorCode, debug: String)] {
      state.withLock { $0.goAways }
    }
  }

  static func connect(
    to simulator: APNsSimulator, protocols: [String] = ["h2"]
  ) async throws -> TestSender {
    var tls = TLSConfiguration.makeClientConfiguration()
    tls.applicationProtocols = protocols
    tls.trustRoots = .certificates(
      try NIOSSLCertificate.fromPEMBytes(Array(simulator.authorityPEM.utf8)))
    let ssl = try NIOSSLContext(configuration: tls)
    let notes = Notes()
    let group = MultiThreadedEventLoopGroup.singleton
    let first = group.next().makePromise(of: Void.self)
    notes.state.withLock { $0.waiters.append((1, first)) }
    let made = Mutex<NIOHTTP2Handler.StreamMultiplexer?>(nil)
    let channel: any Channel
    do {
      channel = try await ClientBootstrap(group: group)
        .connectTimeout(.seconds(5))
        .channelInitializer { channel in
          channel.eventLoop.makeCompletedFuture {
            try channel.pipeline.syncOperations.addHandler(
              NIOSSLClientHandler(context: ssl, serverHostname: "localhost"))
            var connection = NIOHTTP2Handler.ConnectionConfiguration()
            connection.maximumConnectionGlitches = 10_000
            connection.controlFrameRateLimit.maximumCount = 100_000
            var stream = NIOHTTP2Handler.StreamConfiguration()
            stream.streamResetFrameRateLimit.maximumCount = 100_000
            let multiplexer = try channel.pipeline.syncOperations.configureHTTP2Pipeline(
              mode: .client, connectionConfiguration: connection, streamConfiguration: stream,
              streamDelegate: nil,
              inboundStreamInitializer: { $0.close() })
            made.withLock { $0 = multiplexer }
            try channel.pipeline.syncOperations.addHandler(Listener(notes))
          }
        }
        .connect(host: "127.0.0.1", port: simulator.port).get()
    } catch {
      first.fail(error)
      throw error
    }
    try await first.futureResult.get()
    return TestSender(channel: channel, multiplexer: made.withLock { $0 }!, notes: notes)
  }

  /// Waits until the server has sent this many SETTINGS with a limit of streams.
  func settings(_ count: Int) async throws {
    let promise = channel.eventLoop.makePromise(of: Void.self)
    let isThere = notes.state.withLock { state in
      if state.limits.count >= count || state.isClosed { return true }
      state.waiters.append((count, promise))
      return false
    }
    if isThere { promise.succeed() }
    try await promise.futureResult.get()
  }

  func send(_ fields: [APNsRequest.Field], body: String) async -> Fate {
    let answer = channel.eventLoop.makePromise(of: Answer.self)
    let request = fields.reduce(into: HPACKHeaders()) { headers, field in
      headers.add(
        name: field.name, value: field.value, indexing: field.indexed ? .indexable : .nonIndexable)
    }
    let notes = notes
    do {
      let stream = try await multiplexer.createStreamChannel { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(Exchange(answer, notes))
        }
      }.get()
      stream.write(HTTP2Frame.FramePayload.headers(.init(headers: request)), promise: nil)
      stream.writeAndFlush(
        HTTP2Frame.FramePayload.data(
          .init(data: .byteBuffer(ByteBuffer(string: body)), endStream: true)), promise: nil)
    } catch {
      answer.fail(error)
    }
    do { return .answered(try await answer.futureResult.get()) } catch { return .lost }
  }

  func ping() async throws {
    try await channel.writeAndFlush(
      HTTP2Frame(streamID: .rootStream, payload: .ping(.init(withInteger: 7), ack: false)))
  }

  func closed() async throws { try await channel.closeFuture.get() }
  func close() async { try? await channel.close().get() }

  /// The connection's own frames.
  private final class Listener: ChannelInboundHandler {
    typealias InboundIn = HTTP2Frame
    let notes: Notes
    init(_ notes: Notes) { self.notes = notes }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      switch unwrapInboundIn(data).payload {
      case .settings(.settings(let settings)):
        let ready = notes.state.withLock { state in
          for setting in settings where setting.parameter == .maxConcurrentStreams {
            state.limits.append(setting.value)
          }
          let count = state.limits.count
          let ready = state.waiters.filter { $0.0 <= count }
          state.waiters.removeAll { $0.0 <= count }
          return ready
        }
        for (_, promise) in ready { promise.succeed() }
      case .goAway(let last, let code, let data):
        notes.state.withLock {
          $0.goAways.append((last, code, data.map { String(buffer: $0) } ?? ""))
        }
      default: break
      }
    }

    func channelInactive(context: ChannelHandlerContext) {
      let waiters = notes.state.withLock { state in
        state.isClosed = true
        defer { state.waiters = [] }
        return state.waiters
      }
      for (_, promise) in waiters { promise.fail(ChannelError.eof) }
      context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
      context.close(promise: nil)
    }
  }

  /// One request's stream.
  private final class Exchange: ChannelInboundHandler {
    typealias InboundIn = HTTP2Frame.FramePayload
    let promise: EventLoopPromise<Answer>
    let notes: Notes
    var answer = Answer()
    init(_ promise: EventLoopPromise<Answer>, _ notes: Notes) {
      self.promise = promise
      self.notes = notes
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
      var ends = false
      switch unwrapInboundIn(data) {
      case .headers(let headers):
        answer.status = headers.headers.first(name: ":status") ?? ""
        answer.id = headers.headers.first(name: "apns-id") ?? ""
        answer.hasUniqueID = headers.headers.contains(name: "apns-unique-id")
        ends = headers.endStream
      case .data(let data):
        if case .byteBuffer(let bytes) = data.data { answer.body += String(buffer: bytes) }
        ends = data.endStream
      default: break
      }
      guard ends else { return }
      answer.order = notes.state.withLock { state in
        state.answers += 1
        return state.answers
      }
      promise.succeed(answer)
    }

    func channelInactive(context: ChannelHandlerContext) { promise.fail(ChannelError.eof) }
    func errorCaught(context: ChannelHandlerContext, error: any Error) { promise.fail(error) }
  }
}
