import CallClient
import CallCore
import CallWire

/// A connection of a probe. It retries nothing, so that each answer belongs to one question.
final class ProbeSession: DeviceLinkDelegate {
  private enum State {
    case connecting(since: Timestamp)
    case attached
    case waiting(until: Timestamp)
  }

  /// Limit of questions without an answer, below an edge's limit for one session.
  static let outstandingMax = 60
  static let timeout: Span = .seconds(2)
  static let pause: Span = .milliseconds(100)

  let edge: Int
  private let url: String
  private let user: String
  private let token: String
  private let loop: any DeviceLoop
  private let network: any DeviceNetwork
  private var state = State.waiting(until: .zero) {
    didSet { stateSince = loop.now }
  }
  private var link: (any DeviceLink)?
  private var lastID: UInt64 = 0
  private var asked: [UInt64: Timestamp] = [:]
  private var stateSince = Timestamp.zero
  private var lastReceived: (text: String, at: Timestamp)?
  /// Called for each answer with the time of its question.
  var onAnswer: (Timestamp) -> Void = { _ in }

  init(
    edge: Int, url: String, user: String, token: String, loop: any DeviceLoop,
    network: any DeviceNetwork
  ) {
    self.edge = edge
    self.url = url
    self.user = user
    self.token = token
    self.loop = loop
    self.network = network
  }

  var isAttached: Bool { if case .attached = state { true } else { false } }

  var oldestWait: Timestamp? { asked.values.min() }

  /// The session's state in words, for reports of missing answers.
  var account: String {
    let now = loop.now
    func ago(_ at: Timestamp) -> String {
      Units.time(microseconds: UInt64(max(0, (now - at).microseconds)))
    }
    let name =
      switch state {
      case .attached: "attached"
      case .connecting: "connecting"
      case .waiting: "without a connection"
      }
    var parts = ["\(name) for \(ago(stateSince))"]
    if let oldest = oldestWait {
      parts.append("\(asked.count) questions wait, the oldest for \(ago(oldest))")
    }
    if let lastReceived {
      parts.append("last heard \(lastReceived.text) \(ago(lastReceived.at)) ago")
    }
    return parts.joined(separator: ", ")
  }

  func tick() {
    let now = loop.now
    switch state {
    case .attached: break
    case .connecting(let since):
      if since + Self.timeout < now { restart() }
    case .waiting(let until):
      guard until <= now else { return }
      state = .connecting(since: now)
      link = network.connect(to: url, delegate: self)
    }
  }

  /// Queries a call that does not exist. Any answer but an error of the cluster shows that the shard
  /// decides and appends.
  /// - Returns: whether the question was sent.
  func ask(_ random: inout SplitMix64) -> Bool {
    guard isAttached, asked.count < Self.outstandingMax else { return false }
    let call = CallID(high: random.next(), low: random.next())
    send(.call(CallAddress(callee: user, call: call), .query))
    asked[lastID] = loop.now
    return true
  }

  private func send(_ command: ClientCommand) {
    lastID += 1
    link?.send(ClientFrame(id: lastID, command: command))
    link?.flush()
  }

  func stop() {
    link?.close(abruptly: false)
    link = nil
    state = .waiting(until: .distantFuture)
  }

  private func restart() {
    link?.close(abruptly: true)
    reset()
  }

  private func reset() {
    link = nil
    asked.removeAll()
    state = .waiting(until: loop.now + Self.pause)
  }

  func linkOpened() {
    send(.attach(AttachRequest(token: token, device: "probe\(edge)", client: "callload/1")))
  }

  func linkReceived(_ frame: ServerFrame) {
    lastReceived = (Self.text(frame), loop.now)
    switch frame {
    case .reply(_, .attached): state = .attached
    case .reply(let id, let reply): replied(id, reply)
    case .notice(let notice):
      if notice.kind == .goAway { restart() }
    case .delivery, .ongoing, .history, .relays: break
    }
  }

  private static func text(_ frame: ServerFrame) -> String {
    switch frame {
    case .reply(_, .error(let error)): "error \(error.code.rawValue)"
    case .reply(_, .attached): "attached"
    case .reply: "an answer"
    case .notice(let notice): "notice \(notice.kind)"
    case .delivery, .ongoing, .history, .relays: "a delivery"
    }
  }

  private func replied(_ id: UInt64, _ reply: ServerReply) {
    guard isAttached else { return restart() }
    guard let at = asked.removeValue(forKey: id) else { return }
    if case .error(let error) = reply {
      // An error of the cluster's group means that the shard could not answer.
      guard error.code.rawValue < 500, error.code != .rateLimited else { return }
    }
    onAnswer(at)
  }

  func linkReadCompleted() { link?.flush() }

  func linkClosed(_ cause: LinkClosed) {
    lastReceived = (cause.description, loop.now)
    reset()
  }
}
