import CallAuth
import CallBus
import CallCore
import CallEdge
import NIOCore
import Synchronization

/// An app's server that answers when a test wants it to.
final class FakeHook: HookClient {
  struct Question: Sendable {
    var url: String
    var headers: [(String, String)]
    var body: String
    var within: Span
    private let promise: EventLoopPromise<Result<[UInt8], HookFailure>>

    init(
      _ url: String, _ headers: [(String, String)], _ body: [UInt8], _ within: Span,
      _ promise: EventLoopPromise<Result<[UInt8], HookFailure>>
    ) {
      (self.url, self.headers, self.within) = (url, headers, within)
      self.body = String(decoding: body, as: UTF8.self)
      self.promise = promise
    }

    func answer(_ json: String) { promise.succeed(.success(Array(json.utf8))) }
    func fail(_ failure: HookFailure) { promise.succeed(.failure(failure)) }
  }

  static let settings = HookSettings(
    url: "https://app.example/hook", secrets: [[UInt8](repeating: 7, count: 32)])

  private let asked = Inbox<Question>(capacity: 10_000)
  private let total = Mutex(0)
  /// How often it was asked.
  var askedTotal: Int { total.withLock { $0 } }

  func post(
    _ url: String, headers: [(String, String)], body: [UInt8], within: Span,
    on eventLoop: any EventLoop
  ) -> EventLoopFuture<Result<[UInt8], HookFailure>> {
    total.withLock { $0 += 1 }
    let promise = eventLoop.makePromise(of: Result<[UInt8], HookFailure>.self)
    let question = Question(url, headers, body, within, promise)
    if !asked.offer(question) { question.fail(.unreachable) }
    return promise.futureResult
  }

  func close() async { asked.close() }

  /// The next question. Those that wait with it are kept.
  func next() async throws -> Question {
    let waiting = await asked.next(until: .now + patience)
    guard let first = waiting.first else { throw TestFailure("nobody asked") }
    for question in waiting.dropFirst() { asked.offer(question) }
    return first
  }
}
