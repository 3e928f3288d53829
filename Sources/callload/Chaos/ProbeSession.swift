import CallClient
import CallCore
import CallWire

/// A connection of a probe. No retries: each question is one frame, and its answer one time.
final class ProbeSession: DeviceLinkDelegate {
  private enum State {
    case connecting(since: Timestamp)
    case attached
    case waiting(until: Timestamp)
  }

  /// Questions that wait for their answers, below an edge's bound for one session.
  static let outstandingMax = 60
  static let patience: Span = .seconds(2)
  static let pause: Span = .milliseconds(100)

  let edge: Int
  private let url: String
  private let user: String
  private let token: String
  private let loop: any DeviceLoop
  private let network: any DeviceNetwork
  private var state = State.waiting(until: Timestamp(microseconds: 0)) {
    didSet { stateSince = loop.now }
  }
  private var link: (any DeviceLink)?
  private var lastID: UInt64 = 0
  private var asked: [UInt64: Timestamp] = [:]
  private var stateSince = Timestamp(microseconds: 0)
  private var lastWord: (text: String, at: Timestamp)?
  /// Told of each answer: when it was asked.
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

  /// How it stands, for who wonders why it has no answer.
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
    if let lastWord { parts.append("last heard \(lastWord.text) \(ago(lastWord.at)) ago") }
    return parts.joined(separator: ", ")
  }

  func tick() {
    let now = loop.now
    switch state {
    case .attached: break
    case .connecting(let since):
      if since + Self.patience < now { restart() }
    case .waiting(let until):
      guard until <= now else { return }
      state = .connecting(since: now)
      link = network.connect(to: url, delegate: self)
    }
  }

  /// Asks for a call that does not exist: any answer but an error of the cluster's shows that the
  /// shard decides and appends.
  /// - Returns: whether the question left.
  func ask(_ random: inout SplitMix64) -> Bool {
    guard isAttached, asked.count < Self.outstandingMax, let link else { return false }
    lastID += 1
    asked[lastID] = loop.now
    let call = CallID(high: random.next(), low: random.next())
    link.send(
      ClientFrame(id: lastID, command: .call(CallAddress(callee: user, call: call), .query)))
    link.flush()
    return true
  }

  func stop() {
    link?.close(abruptly: false)
    link = nil
    state = .waiting(until: .distantFuture)
  }

  private func restart() {
    link?.close(abruptly: true)
    link = nil
    asked.removeAll()
    state = .waiting(until: loop.now + Self.pause)
  }

  func linkOpened() {
    lastID += 1
    link?.send(
      ClientFrame(
        id: lastID,
        command: .attach(AttachRequest(token: token, device: "probe\(edge)", client: "callload/1")))
    )
    link?.flush()
  }

  func linkReceived(_ frame: ServerFrame) {
    lastWord = (Self.word(frame), loop.now)
    switch frame {
    case .reply(_, .attached): state = .attached
    case .reply(let id, let reply): replied(id, reply)
    case .notice(let notice):
      if notice.kind == .goAway { restart() }
    case .delivery: break
    }
  }

  private static func word(_ frame: ServerFrame) -> String {
    switch frame {
    case .reply(_, .error(let error)): "error \(error.code.rawValue)"
    case .reply(_, .attached): "attached"
    case .reply: "an answer"
    case .notice(let notice): "notice \(notice.kind)"
    case .delivery: "a delivery"
    }
  }

  private func replied(_ id: UInt64, _ reply: ServerReply) {
    guard isAttached else { return restart() }
    guard let at = asked.removeValue(forKey: id) else { return }
    if case .error(let error) = reply {
      // Anything of the cluster's group says that the shard could not answer.
      guard error.code.rawValue < 500, error.code != .rateLimited else { return }
    }
    onAnswer(at)
  }

  func linkReadCompleted() { link?.flush() }

  func linkClosed(_ cause: LinkClosed) {
    lastWord = (cause.description, loop.now)
    link = nil
    asked.removeAll()
    state = .waiting(until: loop.now + Self.pause)
  }
}
