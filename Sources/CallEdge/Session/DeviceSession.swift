package import CallAuth
package import CallCore
package import CallWire

/// The state machine of one device's connection, from the opening of its WebSocket to its end. It does no I/O
/// and reads no clock. The only thing that it keeps of calls is which ones to report if its socket breaks.
///
/// Events are methods. Each appends what is to be done to its `Turn`, and `WebSocketHandler` carries it out.
/// The extensions hold the events of the device (`+Attach`, `+Frames`, `+Commands`, `+Calls`), of
/// the cluster (`+Replies`), and of time (`+End`).
package struct DeviceSession {
  package enum Action: Equatable {
    /// Verify the token, and call `authenticated` with the result.
    case authenticate(token: String)
    /// Verify a token that is to replace the session's, and call `renewed` with the result.
    case authenticateRenewal(request: UInt64, token: String)
    /// Send the token to the user's shard, which returns a ticket for it; then call `replied`.
    indirect case forwardRenewal(request: UInt64, callee: UserKey, Attach, token: String)
    case reply(UInt64, ServerReply)
    /// A reply that the device does not wait for. It may leave with the next frame, or some tenths of a second later.
    case replyLazily(UInt64, ServerReply)
    case notice(Notice)
    indirect case relays(RelayCredentials)
    /// Send a command to the shard of `callee`, then call `replied`.
    case forward(request: UInt64, callee: UserKey, Command.Body)
    /// Ask all shards for the calls that concern the device, then call `callsListed`.
    case askForCalls(request: UInt64)
    /// Tell the user's shard which answered calls the device has placed, then call `replied`.
    indirect case reportTalking(request: UInt64, Talking)
    /// Announce the session to its user's shard, as to a new owner. It has no reply.
    case announce
    /// Tell the shard of `callee` that its call gives way to a crossing one. It has no reply.
    indirect case reportCrossing(callee: UserKey, CrossedCall)
    /// Send acknowledgements to the shard of `callee`. They have no reply.
    case acknowledge(callee: UserKey, [Acknowledgement])
    case ping
    /// Send a close frame; the session has ended.
    case close(CloseReason)
    /// Close the socket. What has not left is lost.
    case abort
  }

  /// The time of an event, and what the session decides: it appends to `actions`.
  package struct Turn {
    package var now: Timestamp
    package var actions: [Action] = []

    package init(now: Timestamp) { self.now = now }

    mutating func reply(_ request: UInt64, _ reply: ServerReply) {
      actions.append(.reply(request, reply))
    }

    mutating func refuse(_ request: UInt64, _ error: CallError) { reply(request, .error(error)) }
  }

  /// The facts that the shards must learn about a session's end.
  package struct End: Equatable {
    package var user: UserKey
    package var device: DeviceID
    package var credential: Credential
    package var isGraceful: Bool
    /// The calls that it placed or resumed, and that may be live, by callee.
    package var calls: [UserKey: [CallID]]

    package init(
      user: UserKey, device: DeviceID, credential: Credential = .none, isGraceful: Bool,
      calls: [UserKey: [CallID]]
    ) {
      self.user = user
      self.device = device
      self.credential = credential
      self.isGraceful = isGraceful
      self.calls = calls
    }
  }

  /// The user and the device to which the session belongs.
  struct Identity: Equatable {
    var user: UserKey
    var device: DeviceID
    var deviceName: String
    /// The user's display name, as in the latest token.
    var name: String
    var client: String
    var attachedAt: Timestamp
    /// The device wants to know which edge is nearer.
    var wantsNearer = false
    var onlyPlaces = false
    /// The device is to see which calls its user is in.
    var wantsOngoing = false
    /// The device is to see when its user's history changes.
    var wantsHistory = false
    /// The device wants credentials for TURN servers.
    var wantsRelays = false

    /// An attach that replaces no session of the device elsewhere.
    var announcement: Attach {
      Attach(
        deviceName: deviceName, client: client, announce: true, attachedAt: attachedAt,
        onlyPlaces: onlyPlaces)
    }
  }

  /// A call placed, or resumed, from here.
  struct PlacedCall: Equatable {
    var call: CallID
    var callee: UserKey
    /// Its shard has shown that it exists.
    var isKnown = false
    /// Its shard has shown that it rang. That a command about it was taken does not show this: the call may be an
    /// answered one, which this device resumes or is about to take over.
    var hasRung = false
    /// The version at which this device took the caller's side over; nil: it did not. What ends its part of the call before
    /// that may come late.
    var takenAt: UInt64?
    /// It may exist: a command that may have placed it got no conclusive reply.
    var isDoubtful = false
    /// When it was answered; nil: not yet, as far as the session knows.
    var answeredAt: Timestamp?
    var isAnswered: Bool { answeredAt != nil }
    /// The user with the other side; empty: the callee, as far as the session knows.
    var peer = ""
    /// How many commands that may place it wait for their replies.
    var commandsOpen = 0

    /// Whether it counts as one of the device's live calls.
    var counts: Bool { isKnown || commandsOpen > 0 }
  }

  /// A reply may come behind the end of its call.
  struct StopMeanwhile: Equatable {
    /// Policy at the limit: the oldest goes.
    static let countMax = 8
    var call: CallID
    var version: UInt64
  }

  enum Phase {
    /// The socket is open. The claims are those of the token in the Authorization header, if there was one.
    /// Can become: authenticating, attaching, closing.
    case connected(DeviceClaims?)
    /// The attach's token is being verified. Can become: connected, attaching, closing.
    indirect case authenticating(DeviceClaims?, request: UInt64, AttachRequest)
    /// The shard has been asked. Can become: attached, connected, closing.
    indirect case attaching(DeviceClaims, request: UInt64, AttachRequest, Identity)
    /// Can become: closing.
    indirect case attached(Identity)
    /// A close frame was sent, and the peer's has not come. Final.
    case closing(until: Timestamp)
  }

  package let number: UInt64
  package let codec: DeviceCodec
  let rules: SessionRules
  var phase: Phase
  /// The rate of commands.
  var bucket: TokenBucket
  /// The rate of bytes that arrive.
  var bytes: TokenBucket
  /// The rates in force: the app's, once the device has attached.
  var rate: SessionRate
  /// Frames that could not be read and attaches that were refused.
  var badFrames: TokenBucket
  /// When the connection must be attached; while attached, when the next ping is due.
  var deadline: Timestamp
  var placedCalls: [PlacedCall] = []
  /// Ends that were delivered while commands waited for their replies.
  var stopsMeanwhile: [StopMeanwhile] = []
  /// Calls that ring here, or did until lately.
  var rungCalls: [RungCall] = []
  /// The last report of the answered calls that were placed here; nil: there was none.
  var talking: Talking?
  /// The next report is made even if it has the same calls.
  var mustReportTalking = false
  /// The reports that the app wants, at the given version of all apps' terms; nil: not looked up.
  var talkingReports: (wanted: TalkingReports, termsVersion: Int)?
  /// The state of its user's calls that the device has seen. An owner of a later epoch shows a later version.
  var shown = OngoingMark()
  /// The state of its user's history that was sent to the device.
  var historyShown = HistoryMark()
  /// The user's display name, as its shard has it stored; empty: none. It is the caller's name where the token has
  /// none.
  var userName = ""
  /// When new credentials for TURN servers are due.
  var relaysDueAt = Timestamp.distantFuture
  /// The answered calls may have changed since the last report, or that failed.
  package internal(set) var mayReportTalking = false
  /// The time until which a call that was delivered here rings or goes on. Of several calls the latest counts. It
  /// only decides which sessions are closed last when the edge drains.
  var inCallUntil = Timestamp(microseconds: 0)
  /// Commands that wait for their replies.
  var pendingCount: UInt16 = 0
  /// Commands, pings and pongs in a row that exceeded the rate.
  var refusals: UInt16 = 0
  /// Pings sent since the device last sent something.
  var pingsUnanswered: UInt8 = 0
  /// The device has sent something since the last ping.
  var hasReceived = false
  var endsGracefully = false
  /// When the device may ask for its calls again.
  var callsAllowedAt = Timestamp(microseconds: 0)
  /// The request that asks for the device's calls, while it waits for its reply.
  var callsRequest: UInt64?
  /// The data that the session keeps of its token, from the attach on.
  var grant = TokenGrant.none
  /// The identity under which an attach was sent to a shard: the shard may know this session.
  var sentIdentity: Identity?
  /// The credential of the session's commands: the token until the attach is answered, then the ticket.
  package internal(set) var credential = Credential.none

  /// - Parameters:
  ///   - claims: the claims of the token in the Authorization header, if there was one and it is valid.
  ///   - token: that token.
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
    bucket = TokenBucket(burst: rules.configuration.commandsBurst, now: now)
    bytes = TokenBucket(burst: Int(rate.bytesBurst), now: now)
    badFrames = TokenBucket(burst: rules.badFramesBurst, now: now)
    deadline = now + rules.configuration.peers.attachTimeout
  }

  package var isAttached: Bool {
    if case .attached = phase { true } else { false }
  }
  package var isClosing: Bool {
    if case .closing = phase { true } else { false }
  }
  /// The number of live calls that were placed from here and that the session remembers.
  package var liveCallsPlaced: Int {
    placedCalls.isEmpty ? 0 : placedCalls.count(where: \.counts)
  }
  /// Whether a call rings or goes on here, or was placed from here and is live.
  package func isInCall(at now: Timestamp) -> Bool {
    isAttached && (placedCalls.contains(where: \.counts) || now < inCallUntil)
  }
  /// The sender of this session's commands, once it is known.
  package var sender: (user: UserKey, device: DeviceID)? {
    sentIdentity.map { ($0.user, $0.device) }
  }

  /// When the device sent its attach; 0: it did not.
  var attachedAt: Timestamp { sentIdentity?.attachedAt ?? Timestamp(microseconds: 0) }

  /// The edge that is nearer now; nil if the device is not attached or did not ask for it.
  package var nearerNotice: Notice? {
    guard case .attached(let identity) = phase, identity.wantsNearer else { return nil }
    return Notice(
      kind: .nearer, message: "This edge is nearer to your calls; none: stay.",
      nearer: rules.nearer.address(for: identity.user))
  }

  /// The command that announces this session to a shard's new owner; nil unless it is attached.
  package var announcement: Command.Body? {
    guard case .attached(let identity) = phase else { return nil }
    return .attach(announcement(of: identity))
  }

  func announcement(of identity: Identity) -> Attach {
    var attach = identity.announcement
    attach.talking = talking
    attach.userName = userName
    if identity.wantsOngoing { attach.ongoing = shown }
    if identity.wantsHistory { attach.history = historyShown }
    return attach
  }
}
