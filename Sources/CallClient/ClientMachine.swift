public import CallCore
public import CallWire

/// A device's connection and its calls, without I/O: what happened goes in, what is to be done
/// comes out. Time and chance are arguments.
///
/// It attaches, comes back over the next edge when the connection breaks, moves to another when its
/// edge goes away, sends each command until it is answered, acknowledges every delivery, and tells
/// each piece of news once.
public struct ClientMachine: Sendable {
  public struct Configuration: Sendable {
    /// Tried in turn, from `firstEdge`. Give devices different orders, so that those of an edge that
    /// dies spread over all others.
    public var edges: [String]
    public var firstEdge = 0
    public var token: String
    /// Somebody answers `Action.renewToken`. Otherwise a token that is no good any more ends everything.
    public var renewsToken = false
    public var device: String
    public var deviceName = ""
    /// SDK name and version.
    public var client = "callmesh-swift/1"
    /// The cluster itself says `tryAgain` after 5 s.
    public var commandTimeout: Span = .seconds(7)
    public var commandAttempts = 4
    public var attachTimeout: Span = .seconds(10)
    /// After a session broke the first attempt comes at any moment of this span: all devices of an
    /// edge lose theirs at once.
    public var reconnectSpread: Span = .seconds(1)
    /// Further attempts: the wait doubles with each, with jitter.
    public var backoffMinimum: Span = .milliseconds(250)
    public var backoffMaximum: Span = .seconds(15)
    /// For how long an edge that said it goes away is tried only if there is no other, or after a
    /// failure.
    public var goneEdgeAvoided: Span = .seconds(30)
    /// Commands that wait for a reply. One more is refused (`rateLimited`).
    public var pendingMax = 64
    /// How long an acknowledgement may wait for a command to travel with. The cluster repeats a
    /// delivery after 500 ms.
    public var ackDelay: Span = .milliseconds(150)
    /// nil: the edge's WebSocket pings alone say that the connection lives.
    public var heartbeat: Heartbeat?
    /// Ended calls that are remembered, so that a late repetition is recognised.
    public var endedCallsMax = 16
    /// How long a new token may take before it is asked for anew.
    public var newTokenTimeout: Span = .seconds(30)

    public init(edges: [String], token: String, device: String) {
      self.edges = edges
      self.token = token
      self.device = device
    }
  }

  /// How a device finds out that its connection is dead where it does not see the edge's WebSocket
  /// pings, or sooner than those would tell.
  public struct Heartbeat: Sendable {
    /// After this time in which nothing came the device sends a `ping`.
    public var after: Span
    /// After this further time in which nothing came it connects anew.
    public var timeout: Span
    public init(after: Span = .seconds(20), timeout: Span = .seconds(5)) {
      self.after = after
      self.timeout = timeout
    }
  }

  public enum State: Sendable, Equatable {
    /// Nothing is attempted: not started, told to stop, or refused.
    case stopped
    /// Becomes connecting at the time given.
    case waiting(until: Timestamp)
    /// Becomes attaching or waiting.
    case connecting(deadline: Timestamp)
    /// Becomes attached, waiting or stopped.
    case attaching(deadline: Timestamp)
    case attached
  }

  public enum Action: Sendable, Equatable {
    /// Begin a connection to `edges[edge]`, in place of any that is there.
    case connect(edge: Int)
    case send(ClientFrame)
    /// Close the connection; nothing of it is of interest any more.
    case close
    /// Begin a connection to `edges[edge]` beside the current one, which still serves.
    case connectNext(edge: Int)
    /// Send over the connection that was begun by `connectNext`.
    case sendNext(ClientFrame)
    case closeNext
    /// The next connection becomes the current one; close the former.
    case switchOver
    /// Get a new token, and say `tokenRenewed`. Not asked for again before that, or `newTokenTimeout`.
    case renewToken
    case event(ClientEvent)
  }

  /// Which connection reports something: nearly always there is only one.
  public enum Link: Sendable { case current, next }

  struct PendingAck: Sendable {
    var item: AckItem
    /// Whatever this device says of the call acknowledges it as well.
    var isInvite: Bool
  }

  struct Pending: Sendable {
    var id: UInt64
    var command: ClientCommand
    /// How often it was sent.
    var attempts = 0
    /// When to send it again, or to give up.
    var nextAt: Timestamp
    /// The cluster asked to try again: it waits for `nextAt`, or for the one before it in its stream.
    var isRefused = false
    /// An attempt has no answer that says what became of it: it may have been carried out.
    var isDoubtful = false
    /// Until when it is retransmitted; nil: `commandAttempts` times.
    var until: Timestamp?

    /// The call whose descriptions and candidates it is one of.
    var stream: CallID? {
      if case .call(let address, .signal) = command { address.call } else { nil }
    }
  }

  public let configuration: Configuration
  public internal(set) var state: State = .stopped
  public internal(set) var calls: [CallID: CallView] = [:]
  var pending: [Pending] = []
  var lastRequest: UInt64 = 0
  var acks: [PendingAck] = []
  private var acksDueAt: Timestamp?
  var endedCalls: [CallID] = []
  var edge: Int
  var failures = 0
  private(set) var attachedBefore = false
  var attachRequest: UInt64 = 0
  /// Attaches that were sent and not answered with `attached`, oldest first. One may still be under way
  /// when the device has attached elsewhere, and then replace that session.
  private var strayAttaches: [(request: UInt64, at: Timestamp)] = []
  private var heardAt = Timestamp(microseconds: 0)
  private var silenceMax: Span = .seconds(75)
  /// When the last `ping` was sent; it counts while nothing came since.
  private var pingedAt: Timestamp?
  /// While attached: the way to another edge, before this one closes.
  var move: Move?
  /// Edges that go away, and until when that is remembered.
  var goneEdges: [GoneEdge] = []
  /// The calls that pushes spoke of, until the cluster said what became of them: the attach asks for
  /// the last, the others are asked for behind it.
  var wokenFor: [CallID] = []
  /// Shown with each attach.
  var token: String
  /// Where a new one was asked for and has not come: until when nobody asks again.
  var tokenAwaitedUntil: Timestamp?
  /// An edge refused the one that there is: no attempt is made with it.
  var isTokenRefused = false

  public init(_ configuration: Configuration) {
    self.configuration = configuration
    token = configuration.token
    self.edge = configuration.firstEdge
  }

  public var isAttached: Bool { state == .attached }
  /// Attached, and on the way to another edge.
  public var isMoving: Bool { move != nil }
  public var pendingCount: Int { pending.count }

  // MARK: What the app asks

  /// Connects, and keeps connected.
  public mutating func start(now: Timestamp, into actions: inout [Action]) {
    guard case .stopped = state, !configuration.edges.isEmpty else { return }
    connect(now: now, into: &actions)
  }

  /// Leaves for good, saying so.
  public mutating func stop(into actions: inout [Action]) {
    if state == .attached {
      sendAcks(into: &actions)
      actions.append(.send(nextFrame(.detach)))
    }
    if state != .stopped { actions.append(.close) }
    abandonMove(into: &actions)
    state = .stopped
    pending.removeAll()
    forgetAcks()
  }

  /// Comes back at once instead of after the wait.
  public mutating func reconnectNow(now: Timestamp, into actions: inout [Action]) {
    guard case .waiting = state, !isTokenRefused else { return }
    connect(now: now, into: &actions)
  }

  // MARK: What the connection reports

  /// The WebSocket is open.
  public mutating func opened(
    _ link: Link = .current, now: Timestamp, into actions: inout [Action]
  ) {
    if case .next = link { return nextOpened(now: now, into: &actions) }
    guard case .connecting = state else { return }
    heardAt = now
    state = .attaching(deadline: now + configuration.attachTimeout)
    let frame = attachFrame(now: now)
    attachRequest = frame.id
    actions.append(.send(frame))
  }

  mutating func attachFrame(now: Timestamp) -> ClientFrame {
    let frame = nextFrame(
      .attach(
        AttachRequest(
          token: token, device: configuration.device, forCall: wokenFor.last,
          deviceName: configuration.deviceName, client: configuration.client)))
    if strayAttaches.count == Self.strayAttachesMax { strayAttaches.removeFirst() }
    strayAttaches.append((frame.id, now))
    return frame
  }

  private static let strayAttachesMax = 8
  /// For how long an attach may be under way: while an edge is cut off from the cluster, and its
  /// connections to NATS are being given up.
  static let strayAttachTime: Span = .seconds(120)

  /// Whether an earlier attempt of this device itself may have replaced its session.
  private func mayHaveReplacedItself(now: Timestamp) -> Bool {
    strayAttaches.contains { $0.request != attachRequest && now < $0.at + Self.strayAttachTime }
  }

  /// The connection broke, was closed, or could not be made.
  public mutating func closed(
    _ link: Link = .current, now: Timestamp, random: inout some RandomNumberGenerator,
    into actions: inout [Action]
  ) {
    if case .next = link { return nextClosed(now: now, random: &random, into: &actions) }
    switch state {
    case .stopped, .waiting: return
    case .connecting, .attaching, .attached: break
    }
    if move != nil {
      goOverEarly(now: now, random: &random, into: &actions)
    } else {
      wait(atLeast: Span(microseconds: 0), now: now, random: &random, into: &actions)
    }
  }

  /// Anything at all arrived, a ping included.
  public mutating func heard(_ link: Link = .current, now: Timestamp) {
    if case .current = link { heardAt = now }
  }

  /// A frame arrived. Call `readCompleted` after the last of a burst.
  public mutating func received(
    _ frame: ServerFrame, on link: Link = .current, now: Timestamp,
    random: inout some RandomNumberGenerator, into actions: inout [Action]
  ) {
    if case .next = link {
      return nextReceived(frame, now: now, random: &random, into: &actions)
    }
    heardAt = now
    switch frame {
    case .reply(let id, let reply):
      if case .attaching = state, id == attachRequest {
        attachReplied(reply, now: now, random: &random, into: &actions)
      } else {
        replied(id, reply, now: now, random: &random, into: &actions)
      }
    case .delivery(let delivery): delivered(delivery, into: &actions)
    case .notice(let notice): noticed(notice, now: now, random: &random, into: &actions)
    }
  }

  /// Nothing more to read for now: what came is acknowledged with the next command, or soon.
  public mutating func readCompleted(now: Timestamp, into actions: inout [Action]) {
    guard !acks.isEmpty else { return }
    if acks.count >= Self.acksMax || configuration.ackDelay.microseconds == 0 {
      sendAcks(into: &actions)
    } else if acksDueAt == nil {
      acksDueAt = now + configuration.ackDelay
    }
  }

  /// When acknowledgements that wait are to be sent by `fire` at the latest.
  public var ackDeadline: Timestamp? { acksDueAt }

  static let acksMax = 32

  mutating func sendAcks(into actions: inout [Action]) {
    acksDueAt = nil
    guard !acks.isEmpty else { return }
    if state == .attached {
      actions.append(.send(ClientFrame(id: 0, command: .ack(acks.map(\.item)))))
    }
    acks.removeAll(keepingCapacity: true)
  }

  mutating func forgetAcks() {
    acksDueAt = nil
    acks.removeAll()
  }

  // MARK: Time

  /// When `fire` is due; nil: not before something else happens.
  public var nextDeadline: Timestamp? {
    switch state {
    case .stopped: return nil
    case .waiting(let until): return until
    case .connecting(let deadline), .attaching(let deadline): return deadline
    case .attached:
      var next = min(silenceEndsAt, acksDueAt ?? .distantFuture)
      if let pingDueAt { next = min(next, pingDueAt) }
      for command in pending where command.nextAt < next { next = command.nextAt }
      if let move { next = min(next, move.deadline) }
      return next
    }
  }

  /// Does what is due.
  public mutating func fire(
    now: Timestamp, random: inout some RandomNumberGenerator, into actions: inout [Action]
  ) {
    switch state {
    case .stopped: return
    case .waiting(let until):
      guard until <= now else { return }
      if isTokenRefused {
        awaitToken(now: now, random: &random, into: &actions)
      } else {
        connect(now: now, into: &actions)
      }
    case .connecting(let deadline), .attaching(let deadline):
      guard deadline <= now else { return }
      actions.append(.close)
      wait(atLeast: Span(microseconds: 0), now: now, random: &random, into: &actions)
    case .attached:
      guard now < silenceEndsAt else {
        actions.append(.close)
        closed(now: now, random: &random, into: &actions)
        return
      }
      fireMove(now: now, random: &random, into: &actions)
      if let pingDueAt, pingDueAt <= now { ping(now: now, into: &actions) }
      if let due = acksDueAt, due <= now { sendAcks(into: &actions) }
      resendDue(now: now, into: &actions)
    }
  }

  /// When a connection on which nothing comes counts as dead.
  private var silenceEndsAt: Timestamp {
    let end = heardAt + silenceMax
    guard let heartbeat = configuration.heartbeat, let openPing else { return end }
    return min(end, openPing + heartbeat.timeout)
  }

  /// Asks whether the connection lives, where there is a heartbeat.
  mutating func ping(now: Timestamp, into actions: inout [Action]) {
    guard configuration.heartbeat != nil, openPing == nil else { return }
    pingedAt = now
    actions.append(.send(nextFrame(.ping)))
  }

  private var pingDueAt: Timestamp? {
    openPing == nil ? configuration.heartbeat.map { heardAt + $0.after } : nil
  }

  /// When the ping was sent that nothing has come after.
  private var openPing: Timestamp? { pingedAt.flatMap { $0 >= heardAt ? $0 : nil } }

  // MARK: Connection

  private mutating func connect(now: Timestamp, into actions: inout [Action]) {
    state = .connecting(deadline: now + configuration.attachTimeout)
    actions.append(.connect(edge: edge % configuration.edges.count))
  }

  /// Goes to the next edge after a wait: at any moment of `reconnectSpread` when a session broke, else
  /// doubling with each failure, with jitter of half.
  mutating func wait(
    atLeast minimum: Span, now: Timestamp, random: inout some RandomNumberGenerator,
    into actions: inout [Action]
  ) {
    let span: Span
    if state == .attached {
      let spread = max(0, configuration.reconnectSpread.microseconds)
      span = Span(microseconds: Int64.random(in: 0...spread, using: &random))
    } else {
      span = backoff(failures: failures, random: &random)
      failures += 1
    }
    edge = edgeAfter(edge, now: now)
    forgetAcks()
    let until = now + Span(microseconds: max(minimum.microseconds, span.microseconds))
    state = .waiting(until: until)
    actions.append(.event(.detached(retryAt: until)))
  }

  func backoff(failures: Int, random: inout some RandomNumberGenerator) -> Span {
    let doubled = configuration.backoffMinimum.microseconds << Int64(min(failures, 16))
    let ceiling = max(1, min(doubled, configuration.backoffMaximum.microseconds))
    return Span(microseconds: ceiling / 2 + Int64.random(in: 0...ceiling / 2, using: &random))
  }

  private mutating func attachReplied(
    _ reply: ServerReply, now: Timestamp, random: inout some RandomNumberGenerator,
    into actions: inout [Action]
  ) {
    switch reply {
    case .attached(let info): attached(info, attachRequest, now: now, into: &actions)
    case .error(let error) where mayRenew(after: error):
      actions.append(.close)
      wait(atLeast: Span(microseconds: 0), now: now, random: &random, into: &actions)
      tokenRefused(now: now, into: &actions)
    case .error(let error) where Self.isFinal(error.code): refuse(error, into: &actions)
    case .error(let error):
      actions.append(.close)
      wait(
        atLeast: .milliseconds(Int64(error.retryAfterMilliseconds)), now: now, random: &random,
        into: &actions)
    case .done, .registered, .call, .answer, .calls:
      actions.append(.close)
      wait(atLeast: Span(microseconds: 0), now: now, random: &random, into: &actions)
    }
  }

  /// The current connection is attached, by a request.
  mutating func attached(
    _ info: AttachedInfo, _ request: UInt64, now: Timestamp, into actions: inout [Action]
  ) {
    attachRequest = request
    strayAttaches.removeAll { $0.request == request || $0.at + Self.strayAttachTime <= now }
    failures = 0
    state = .attached
    heardAt = now
    pingedAt = nil
    silenceMax = .milliseconds(max(10_000, Int64(info.pingSeconds) * 2500))
    actions.append(.event(.attached(info, again: attachedBefore)))
    sayPending(now: now, into: &actions)
    wokenAttached(info, now: now, into: &actions)
    if attachedBefore { resumeCalls(now: now, into: &actions) }
    attachedBefore = true
  }

  static func isFinal(_ code: CallError.Code) -> Bool {
    switch code {
    case .notAccepted, .expired, .tokenTooLong, .revoked, .forbidden, .invalidDevice, .invalidField,
      .unsupportedSubprotocol:
      true
    default: false
    }
  }

  mutating func refuse(_ error: CallError, into actions: inout [Action]) {
    state = .stopped
    actions.append(.close)
    abandonMove(into: &actions)
    actions.append(.event(.refused(error)))
  }

  private mutating func noticed(
    _ notice: Notice, now: Timestamp, random: inout some RandomNumberGenerator,
    into actions: inout [Action]
  ) {
    actions.append(.event(.notice(notice)))
    switch notice.kind {
    case .sessionReplaced:
      // By the connection that this device moves to; or by another copy of the device: coming back
      // would throw that out, and so on for ever.
      if goOver(into: &actions) { return }
      if mayHaveReplacedItself(now: now) {
        // Nobody else knows which of the two sessions this device still has.
        abandonMove(into: &actions)
        actions.append(.close)
        return wait(atLeast: Span(microseconds: 0), now: now, random: &random, into: &actions)
      }
      refuse(CallError(.alreadyAttached, "The device attached elsewhere."), into: &actions)
    // The app decides: it may register again, or leave it.
    case .deviceRemoved, .tokenTaken, .unknown: break
    case .tokenExpires: askForToken(now: now, into: &actions)
    case .goAway:
      noteGone(edge, now: now)
      let hint = Span.milliseconds(Int64(notice.retryAfterMilliseconds))
      if state == .attached {
        beginMove(after: hint, now: now, random: &random)
      } else {
        actions.append(.close)
        wait(atLeast: hint, now: now, random: &random, into: &actions)
      }
    }
  }
}
