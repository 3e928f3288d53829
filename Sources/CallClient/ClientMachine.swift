public import CallCore
public import CallWire

/// A device's connection and its calls, without I/O: what happened goes in, what is to be done
/// comes out. Time and chance are arguments.
///
/// It attaches, comes back over the next edge when the connection breaks, sends each command until
/// it is answered, acknowledges every delivery, and tells each piece of news once.
public struct ClientMachine: Sendable {
  public struct Configuration: Sendable {
    /// Tried in turn, from `firstEdge`.
    public var edges: [String]
    public var firstEdge = 0
    public var token: String
    public var device: String
    public var deviceName = ""
    /// SDK name and version.
    public var client = "callmesh-swift/1"
    /// The cluster itself says `tryAgain` after 5 s.
    public var commandTimeout: Span = .seconds(7)
    public var commandAttempts = 4
    public var attachTimeout: Span = .seconds(10)
    public var backoffMinimum: Span = .milliseconds(250)
    public var backoffMaximum: Span = .seconds(15)
    /// Commands that wait for a reply. One more is refused (`rateLimited`).
    public var pendingMax = 64
    /// How long an acknowledgement may wait for a command to travel with. The cluster repeats a
    /// delivery after 500 ms.
    public var ackDelay: Span = .milliseconds(20)
    /// Ended calls that are remembered, so that a late repetition is recognised.
    public var endedCallsMax = 16

    public init(edges: [String], token: String, device: String) {
      self.edges = edges
      self.token = token
      self.device = device
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
    case event(ClientEvent)
  }

  struct Pending: Sendable {
    var id: UInt64
    var command: ClientCommand
    /// How often it was sent.
    var attempts = 0
    /// When to send it again, or to give up.
    var nextAt: Timestamp
  }

  public let configuration: Configuration
  public internal(set) var state: State = .stopped
  public internal(set) var calls: [CallID: CallView] = [:]
  var pending: [Pending] = []
  var lastRequest: UInt64 = 0
  var acks: [AckItem] = []
  private var acksDueAt: Timestamp?
  var endedCalls: [CallID] = []
  private var edge: Int
  private var failures = 0
  private var attachedBefore = false
  private var attachRequest: UInt64 = 0
  private var heardAt = Timestamp(microseconds: 0)
  private var silenceMax: Span = .seconds(75)

  public init(_ configuration: Configuration) {
    self.configuration = configuration
    self.edge = configuration.firstEdge
  }

  public var isAttached: Bool { state == .attached }
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
    state = .stopped
    pending.removeAll()
    forgetAcks()
  }

  /// Comes back at once instead of after the wait.
  public mutating func reconnectNow(now: Timestamp, into actions: inout [Action]) {
    guard case .waiting = state else { return }
    connect(now: now, into: &actions)
  }

  // MARK: What the connection reports

  /// The WebSocket is open.
  public mutating func opened(now: Timestamp, into actions: inout [Action]) {
    guard case .connecting = state else { return }
    heardAt = now
    state = .attaching(deadline: now + configuration.attachTimeout)
    let frame = nextFrame(
      .attach(
        AttachRequest(
          token: configuration.token, device: configuration.device, forCall: nil,
          deviceName: configuration.deviceName, client: configuration.client)))
    attachRequest = frame.id
    actions.append(.send(frame))
  }

  /// The connection broke, was closed, or could not be made.
  public mutating func closed(
    now: Timestamp, random: inout some RandomNumberGenerator, into actions: inout [Action]
  ) {
    switch state {
    case .stopped, .waiting: return
    case .connecting, .attaching, .attached: break
    }
    wait(atLeast: Span(microseconds: 0), now: now, random: &random, into: &actions)
  }

  /// Anything at all arrived, a ping included.
  public mutating func heard(now: Timestamp) { heardAt = now }

  /// A frame arrived. Call `readCompleted` after the last of a burst.
  public mutating func received(
    _ frame: ServerFrame, now: Timestamp, random: inout some RandomNumberGenerator,
    into actions: inout [Action]
  ) {
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
      actions.append(.send(ClientFrame(id: 0, command: .ack(acks))))
    }
    acks.removeAll(keepingCapacity: true)
  }

  private mutating func forgetAcks() {
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
      var next = min(heardAt + silenceMax, acksDueAt ?? .distantFuture)
      for command in pending where command.nextAt < next { next = command.nextAt }
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
      if until <= now { connect(now: now, into: &actions) }
    case .connecting(let deadline), .attaching(let deadline):
      guard deadline <= now else { return }
      actions.append(.close)
      wait(atLeast: Span(microseconds: 0), now: now, random: &random, into: &actions)
    case .attached:
      guard now < heardAt + silenceMax else {
        actions.append(.close)
        wait(atLeast: Span(microseconds: 0), now: now, random: &random, into: &actions)
        return
      }
      if let due = acksDueAt, due <= now { sendAcks(into: &actions) }
      resendDue(now: now, into: &actions)
    }
  }

  // MARK: Connection

  private mutating func connect(now: Timestamp, into actions: inout [Action]) {
    state = .connecting(deadline: now + configuration.attachTimeout)
    actions.append(.connect(edge: edge % configuration.edges.count))
  }

  /// Goes to the next edge after a wait that doubles with each failure, with jitter of half.
  private mutating func wait(
    atLeast minimum: Span, now: Timestamp, random: inout some RandomNumberGenerator,
    into actions: inout [Action]
  ) {
    let doubled = configuration.backoffMinimum.microseconds << Int64(min(failures, 16))
    let ceiling = max(1, min(doubled, configuration.backoffMaximum.microseconds))
    let span = max(
      minimum.microseconds, ceiling / 2 + Int64.random(in: 0...ceiling / 2, using: &random))
    failures += 1
    edge += 1
    forgetAcks()
    let until = now + Span(microseconds: span)
    state = .waiting(until: until)
    actions.append(.event(.detached(retryAt: until)))
  }

  private mutating func attachReplied(
    _ reply: ServerReply, now: Timestamp, random: inout some RandomNumberGenerator,
    into actions: inout [Action]
  ) {
    switch reply {
    case .attached(let info):
      failures = 0
      state = .attached
      silenceMax = .milliseconds(max(10_000, Int64(info.pingSeconds) * 2500))
      actions.append(.event(.attached(info, again: attachedBefore)))
      sayPending(now: now, into: &actions)
      if attachedBefore { resumeCalls(now: now, into: &actions) }
      attachedBefore = true
    case .error(let error) where Self.isFinal(error.code): refuse(error, into: &actions)
    case .error(let error):
      actions.append(.close)
      wait(
        atLeast: .milliseconds(Int64(error.retryAfterMilliseconds)), now: now, random: &random,
        into: &actions)
    case .done, .registered, .call, .answer:
      actions.append(.close)
      wait(atLeast: Span(microseconds: 0), now: now, random: &random, into: &actions)
    }
  }

  private static func isFinal(_ code: CallError.Code) -> Bool {
    switch code {
    case .notAccepted, .expired, .forbidden, .invalidDevice, .invalidField, .unsupportedSubprotocol:
      true
    default: false
    }
  }

  private mutating func refuse(_ error: CallError, into actions: inout [Action]) {
    state = .stopped
    actions.append(.close)
    actions.append(.event(.refused(error)))
  }

  private mutating func noticed(
    _ notice: Notice, now: Timestamp, random: inout some RandomNumberGenerator,
    into actions: inout [Action]
  ) {
    actions.append(.event(.notice(notice)))
    switch notice.kind {
    // Coming back would throw the other session out, and so on for ever.
    case .sessionReplaced:
      refuse(CallError(.alreadyAttached, "The device attached elsewhere."), into: &actions)
    case .deviceRemoved:
      refuse(CallError(.unknownDevice, "The registration was removed."), into: &actions)
    case .goAway:
      sendAcks(into: &actions)
      actions.append(.close)
      wait(
        atLeast: .milliseconds(Int64(notice.retryAfterMilliseconds)), now: now, random: &random,
        into: &actions)
    }
  }
}
