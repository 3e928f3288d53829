import CallCore
import CallPush
import CallWire
import Testing

/// A webhook's machine, the stream that it reads and the server that it posts to.
struct WebhookBench {
  typealias Place = WebhookMachine.Place
  static let start = Timestamp(microseconds: 1_800_000_000_000_000)

  var now = Self.start
  var machine: WebhookMachine
  /// The messages in the stream, in order.
  var stream: [WebhookMachine.Message] = []
  var kinds = Set(AppEventKind.allCases)
  /// The posts that are under way.
  var posts: [(place: Place, event: AppEvent)] = []
  var buries: [(place: Place, event: AppEvent, attempts: Int, reason: String)] = []
  var delivered: [String] = []
  var dead: [String] = []

  /// - Parameter events: are stored in one message, if there are any.
  init(_ events: (UInt64, AppEventKind)..., since: Timestamp = Self.start) {
    machine = WebhookMachine(WebhookProgress(app: "demo", host: "app.example", since: since))
    if !events.isEmpty { store(events.map { Self.event($0.0, $0.1) }) }
  }

  /// Each of these calls is placed.
  init(calls: Range<UInt64>, messages: Int = 1) {
    self.init()
    let each = calls.count / messages
    for message in 0..<messages {
      store(calls.dropFirst(message * each).prefix(each).map { Self.event($0, .placed) })
    }
  }

  static func event(_ call: UInt64, _ kind: AppEventKind) -> AppEvent {
    AppEvent(
      call: CallID(high: 1, low: call), kind: kind, at: start,
      callee: UserKey(app: "demo", user: "bob"), caller: Party(user: "ann", device: "a1"),
      video: false, placedAt: start)
  }

  static func name(_ event: AppEvent) -> String { "\(event.call.low) \(event.kind.name)" }

  /// Stores a message with these events, and says so.
  mutating func store(_ events: (UInt64, AppEventKind)...) {
    store(events.map { Self.event($0.0, $0.1) })
  }

  mutating func store(_ events: [AppEvent?]) {
    let sequence = (stream.last?.sequence ?? 0) + 1
    stream.append(.init(sequence: sequence, storedAt: now, events: events))
    machine.woke(now: now)
    advance()
  }

  /// Carries out what is due. Reads are answered at once.
  mutating func advance(mayPost: Bool = true) {
    while true {
      let actions = machine.advance(now: now, mayPost: mayPost)
      if actions.isEmpty { return }
      for action in actions {
        switch action {
        case .read(let from):
          machine.took(
            stream.first { $0.sequence >= from }, last: stream.last?.sequence, kinds: kinds,
            now: now)
        case .post(let place, let event): posts.append((place, event))
        case .bury(let place, let event, let attempts, let reason):
          buries.append((place, event, attempts, reason))
        }
      }
    }
  }

  mutating func pass(_ span: Span) {
    let end = now + span
    while machine.nextDeadline <= end {
      now = max(now, machine.nextDeadline)
      advance()
    }
    now = end
    advance()
  }

  /// Passes the time until something is posted.
  mutating func untilPost() -> Span {
    let before = now
    while posts.isEmpty { pass(.seconds(1)) }
    return now - before
  }

  var posting: [String] { posts.map { Self.name($0.event) } }

  /// Answers a post that is under way.
  mutating func answer(_ name: String, failure: String? = nil, isRefusal: Bool = false) {
    answer(name, failure.map { WebhookFailure($0, isRefusal: isRefusal) })
  }

  /// Answers all that is under way, and what follows it at once.
  mutating func answerAll(failure: String? = nil) {
    while let name = posting.first { answer(name, failure: failure) }
  }

  mutating func answer(_ name: String, status: Int, retryAfter: Span? = nil) {
    answer(name, WebhookFailure(status: status, retryAfter: retryAfter))
  }

  private mutating func answer(_ name: String, _ failure: WebhookFailure?) {
    guard let index = posts.firstIndex(where: { Self.name($0.event) == name }) else {
      Issue.record("\(name) is not under way")
      return
    }
    let post = posts.remove(at: index)
    if failure == nil { delivered.append(name) }
    machine.answered(post.place, failure: failure, now: now, chance: 0)
    advance()
  }

  mutating func buryAll(isStored: Bool = true) {
    let taken = buries
    buries = []
    for one in taken {
      if isStored { dead.append(Self.name(one.event)) }
      machine.buried(one.place, isStored: isStored, now: now)
    }
    advance()
  }

  /// Another gateway takes over from what is stored.
  mutating func takeOver() {
    machine = WebhookMachine(machine.progress)
    posts = []
    buries = []
    advance()
  }
}
