package import CallAuth
package import CallCore
package import CallWire
import Synchronization

/// One device's connection, from its WebSocket's opening to its end. Does no I/O, reads no clock and
/// knows nothing about calls, save which it would have to report if its socket broke.
///
/// Events are methods; what is to be done is appended to a buffer of `Action`s.
package struct DeviceSession {
  package enum Action: Equatable {
    /// Check the token and answer with `authenticated`.
    case authenticate(token: String)
    /// The same of a token that is to take the place of the session's; answer with `renewed`.
    case authenticateRenewal(request: UInt64, token: String)
    /// Hand the token to the user's shard, which gives a ticket for it; answer with `replied`.
    case forwardRenewal(request: UInt64, callee: UserKey, Attach, token: String)
    case reply(UInt64, ServerReply)
    /// A reply that nobody waits for: it may travel with the next frame, or wait some
    /// tenths of a second.
    case replyLazily(UInt64, ServerReply)
    case notice(Notice)
    /// Hand a command to the shard of `callee`; answer with `replied`.
    case forward(request: UInt64, callee: UserKey, Command.Body)
    /// Ask all shards for the calls that concern the device; answer with `callsListed`.
    case askForCalls(request: UInt64)
    /// Hand acknowledgements over; they are never answered.
    case acknowledge(callee: UserKey, [Acknowledgement])
    case ping
    /// Send a close frame; the session has ended.
    case close(CloseReason)
    /// Let go of the socket, with what has not left.
    case abort
  }

  /// What a session's end means for the cluster.
  package struct Farewell: Equatable {
    package var user: UserKey
    package var device: DeviceID
    package var credential = Credential.none
    package var graceful: Bool
    /// The calls that it placed or resumed and that live as far as it knows, by callee.
    package var calls: [UserKey: [CallID]]
  }

  /// Whom a session speaks for.
  struct Identity: Equatable {
    var user: UserKey
    var device: DeviceID
    var deviceName: String
    var client: String
    var attachedAt: Timestamp
  }

  /// A call placed, or resumed, from here.
  struct PlacedCall: Equatable {
    var call: CallID
    var callee: UserKey
    /// Its shard has said that it is there.
    var isKnown = false
    /// A command that may have placed it got no answer that says so: it may be there.
    var isDoubtful = false
    /// How many commands that may place it wait for an answer.
    var commandsOpen = 0

    /// Whether it counts as one of the device's live calls.
    var counts: Bool { isKnown || commandsOpen > 0 }
  }

  enum Phase {
    /// The socket is open. Claims are set when the Authorization header held a token. Can become:
    /// authenticating, attaching, closing.
    case connected(DeviceClaims?)
    /// The attach's token is being checked. Can become: connected, attaching, closing.
    indirect case authenticating(DeviceClaims?, request: UInt64, AttachRequest)
    /// The shard has been asked. Can become: attached, connected, closing.
    indirect case attaching(DeviceClaims, request: UInt64, AttachRequest, Identity)
    /// Can become: closing.
    indirect case attached(Identity)
    /// A close frame was sent; the peer's is awaited. Final.
    case closing(until: Timestamp)
  }

  package let number: UInt64
  package let codec: DeviceCodec
  let rules: SessionRules
  var phase: Phase
  var bucket: TokenBucket
  /// Of what arrives, in bytes.
  var bytes: TokenBucket
  /// The app's, once the device is known.
  var rate: SessionRate
  /// For frames that cannot be read and attaches that are refused.
  var patience: TokenBucket
  /// When the connection must be attached; while attached, when the next ping is due.
  var deadline: Timestamp
  var placedCalls: [PlacedCall] = []
  /// Until when a call that was delivered here rings, or goes on. Of several calls the one heard of
  /// last counts: this only says which sessions are closed last when the edge goes away.
  var inCallUntil = Timestamp(microseconds: 0)
  var pendingCount: UInt16 = 0
  var refusals: UInt16 = 0
  /// Pings sent since the device was last heard.
  var pingsOpen: UInt8 = 0
  var heard = false
  var endsGracefully = false
  /// When the device may ask for its calls again.
  var callsAskableAt = Timestamp(microseconds: 0)
  /// The question for its calls that is under way.
  var callsRequest: UInt64?
  /// What it rests on, once it attaches.
  var grant = TokenGrant.none
  /// Whether a shard may hold this session: an attach was sent to it.
  var mayBeKnown: Identity?
  /// By what right its commands speak: the token until the attach is answered, then the ticket.
  package internal(set) var credential = Credential.none

  /// - Parameters:
  ///   - claims: those of the Authorization header, checked.
  ///   - token: that header's.
  package init(
    number: UInt64, codec: DeviceCodec, claims: DeviceClaims?, token: String = "",
    rules: SessionRules, now: Timestamp
  ) {
    if claims != nil { credential = .token(token) }
    self.number = number
    self.codec = codec
    self.rules = rules
    phase = .connected(claims)
    rate = SessionRate(AppLimits(), rules)
    bucket = TokenBucket(burst: rules.commandsBurst, now: now)
    bytes = TokenBucket(burst: Int(rate.bytesBurst), now: now)
    patience = TokenBucket(burst: rules.patience, now: now)
    deadline = now + rules.attachTimeout
  }

  // MARK: For the driver

  package var isAttached: Bool {
    if case .attached = phase { true } else { false }
  }
  package var isClosing: Bool {
    if case .closing = phase { true } else { false }
  }
  /// As far as the session knows.
  package var liveCallsPlaced: Int {
    placedCalls.isEmpty ? 0 : placedCalls.count(where: \.counts)
  }
  /// Whether a call rings or goes on here, or was placed from here and lives.
  package func isInCall(at now: Timestamp) -> Bool {
    isAttached && (placedCalls.contains(where: \.counts) || now < inCallUntil)
  }
  /// The sender of this session's commands, once it is known.
  package var sender: (user: UserKey, device: DeviceID)? {
    mayBeKnown.map { ($0.user, $0.device) }
  }

  /// The command by which a shard's new owner learns of this session; nil unless it is attached.
  package var announcement: Command.Body? {
    guard case .attached(let identity) = phase else { return nil }
    return .attach(
      Attach(
        deviceName: identity.deviceName, client: identity.client, announce: true,
        attachedAt: identity.attachedAt))
  }
}

/// How much one session may say.
struct SessionRate {
  /// Of commands.
  var perSecond: Int32
  var burst: Int32
  var bytesPerSecond: Int32
  var bytesBurst: Int32

  init(_ limits: AppLimits, _ rules: SessionRules) {
    let commands = limits[.commandsPerSession]
    perSecond = Int32(clamping: commands > 0 ? commands : rules.commandsPerSecond)
    burst = Int32(clamping: commands > 0 ? limits.burst(.commandsPerSession) : rules.commandsBurst)
    bytesPerSecond = Int32(clamping: limits[.bytesPerSession])
    // The largest frame that there is must have room.
    bytesBurst = Int32(clamping: max(limits.burst(.bytesPerSession), 1_048_576))
  }
}

/// The numbers by which sessions are judged; one object for all sessions of a node.
package final class SessionRules: Sendable {
  /// This edge's number in sessions.
  package let edge: UInt64
  package let attachTimeout: Span
  package let pingInterval: Span
  package let pingsMissedMax: Int
  package let commandsPerSecond: Int
  package let commandsBurst: Int
  package let commandsPendingMax: Int
  package let badFramesMax: Int
  /// After this time one frame that could not be read, or one refused attach, is forgotten.
  package static let badFrameForgivenAfter: Span = .seconds(60)
  package let refusalsMax: Int
  /// How long the peer may take to answer a close frame.
  package let closeTimeout: Span = .seconds(2)
  /// How long a socket stays open after a close frame that the peer can only read when it has read
  /// all that waits before it, or sent all of a message that was too large.
  package let lingerTimeout: Span = .seconds(10)
  /// How often one session may ask all shards for its calls.
  package let callsInterval: Span = .seconds(10)
  /// Calls that a session remembers. Policy: forget the oldest of those that may not be there, then
  /// the oldest.
  package let placedCallsMax = 16
  package let limits: CallLimits
  /// The edge goes away: nobody attaches and nothing new is placed.
  package var isDraining: Bool {
    get { draining.load(ordering: .relaxed) }
    set { draining.store(newValue, ordering: .relaxed) }
  }
  private let draining = Atomic(false)

  /// Of the bucket that refills by one a second: so many bad frames but one empty it.
  var patience: Int { (badFramesMax - 1) * Int(badFrameCost / 1000) }
  let badFrameCost = SessionRules.badFrameForgivenAfter.microseconds / 1000

  /// What the apps may take; nil: each the standard.
  let apps: AppGates?

  package init(edge: UInt64, configuration: EdgeConfiguration, apps: AppGates? = nil) {
    self.edge = edge
    self.apps = apps
    limits = configuration.limits
    attachTimeout = configuration.peers.attachTimeout
    pingInterval = configuration.pingInterval
    pingsMissedMax = configuration.pingsMissedMax
    commandsPerSecond = configuration.commandsPerSecond
    commandsBurst = configuration.commandsBurst
    commandsPendingMax = configuration.commandsPendingPerSession
    badFramesMax = configuration.peers.badFramesMax
    refusalsMax = configuration.peers.refusalsMax
  }
}
