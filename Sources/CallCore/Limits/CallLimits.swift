/// The numbers in the rules of calls, with their defaults. An operator may set others for the whole cluster, not for
/// one app.
public struct CallLimits: Sendable, Equatable {
  public var ringTimeout: Span = .seconds(30)
  public var ringTimeoutMinimum: Span = .seconds(5)
  public var ringTimeoutMaximum: Span = .seconds(180)
  /// How long after the answer both sides have to report connected.
  public var connectGrace: Span = .seconds(15)
  /// How long a ringing call waits for its caller after the caller's session broke.
  public var resumeGraceRinging: Span = .seconds(15)
  /// How long an answered call waits for a side after that side's session broke.
  public var resumeGraceAnswered: Span = .seconds(60)
  /// How long a call waits for a registered device whose session broke just before the call was
  /// placed, and for any device while an edge is missing. Zero: a call waits for no device.
  public var reattachGrace: Span = .seconds(5)
  /// How long after its attach a device that has an answered call may take to acknowledge the call or send a command
  /// about it. Most retransmissions of the delivery that asks for this fit into it.
  public var winnersWord: Span { max(reattachGrace, .seconds(5)) }
  /// How long the shard of a call that gave way to a crossing one asks the other call's shard to connect the two
  /// devices. After that the other call rings on.
  public var mergeTimeout: Span = .seconds(30)
  /// The pauses before the retransmissions of a delivery. After the last one the delivery is given up until the device
  /// attaches again.
  public var deliveryRepeats: [Span] = [
    .milliseconds(500), .seconds(1), .seconds(2), .seconds(4),
  ]
  /// How long an ended call is kept, so that a late device gets a distinct answer.
  public var endedCallKept: Span = .seconds(600)
  /// A device that has a session is pushed as well if it does not acknowledge an invite for this long.
  public var pushAfterSilence: Span = .seconds(2)
  /// How long after its end a call's clean-up pushes are worth sending: later a phone has stopped ringing by itself. A
  /// push that rings is wanted until the call's deadline.
  public var cleanUpPushLifetime: Span = .seconds(30)
  /// How long the provider keeps a missed-call notice for a phone that is off.
  public var missedNoticeLifetime: Span = .seconds(86_400)
  /// How long after they were decided a new owner adds pushes to the work queue again if it does not know whether they
  /// left. Must be shorter than the queue's deduplication window.
  public var pushRetransmitWindow: Span = .seconds(240)
  public var registrationLifetime: Span = .seconds(90 * 86_400)
  /// A registration holds the time at which its device was last seen. It is written again when that time is
  /// older than this.
  public var lastSeenWriteInterval: Span = .seconds(86_400)
  /// How often the shard looks for registrations whose devices were unseen for too long.
  public var expirySweepInterval: Span = .seconds(3600)
  /// How often a registration claims a token again because another device claimed it meanwhile. After that the
  /// registration is refused (`tryAgain`).
  public var tokenClaimAttempts = 5
  /// Registrations of one shard that wait for the store or for their tokens' former owners. Policy:
  /// refuse (`tryAgain`).
  public var registrationsWaiting = 1000
  public var devicesPerUser = 10
  /// Devices of a user that are attached or registered. A call rings them all. Policy: refuse (`tooManyDevices`) the
  /// attach or the registration of one more.
  public var legsPerCall: Int { devicesPerUser * 2 }
  /// Devices of a user at a new owner, to which edges announce their sessions. The new owner may have let in
  /// `legsPerCall` itself before they announce the former owner's. Policy: close the session of one more
  /// (`deviceRemoved`).
  public var announcedDevicesPerUser: Int { legsPerCall * 2 }
  /// Devices that ever take part in one call, also those that left it. Policy: one more does not ring, and its answer
  /// is refused (`tooManyDevices`).
  public var legsPerCallLifetime: Int { max(legsPerCall, min(legsPerCall * 4, 120)) }
  public var liveCallsPerDevice = 5
  public var callsPerPairPerMinute = 10
  /// Calls to one user that are live, or whose end some device has not acknowledged. Each attach of the user's devices
  /// visits all of them. Policy: refuse (`tooManyCalls`).
  public var callsToUser = 1000
  public var headersCount = 32
  public var headersBytes = 4096
  public var descriptionBytes = 65_536
  /// Data that a caller's app adds to ring pushes. The payloads of all providers have room for twice as much.
  public var pushDataBytes = 1024
  /// Descriptions, candidates and informations kept for one side of one call.
  public var signalsWaiting = 128
  /// The size of a candidate.
  public var signalBytes = 16_384
  /// The size of an information, in an answered call.
  public var informationBytes = 4096
  /// How long descriptions and candidates may wait, to share an append; alerting and hang-up four times as long.
  public var lazyAppend: Span = .milliseconds(5)
  /// How often the sides of a call move to other devices. Policy: refuse (`tooManyMoves`).
  public var movesPerCall = 32
  /// How often a call goes on to other users, and to how many at once. Policy: it does not go on, and ignore further
  /// users.
  public var diversionsPerCall = 5
  public var diversionTargets = 10
  /// Devices that a call to a group of more than `diversionTargets` members may ring.
  public var legsPerGroupCall = 250
  /// Calls that one shard holds, ended ones included. Policy: refuse (`overloaded`).
  public var callsPerShard = 200_000
  /// Ended calls that one shard keeps for longer than `endedCallKept` because their records or their entries in
  /// histories are not stored. Policy: forget one with what it lacks in the store, and count it.
  public var unrecordedCalls = 1000
  /// Whether a user in an answered call is busy for further calls. If not, they ring, and the app does call waiting.
  /// The calls that the user placed are in other users' shards: edges report those.
  public var busyWhileInCall = false

  public init() {}

  /// Why a device may not place one more call; nil when it may.
  ///
  /// The calls of one device go to many shards, so whoever holds its session counts them.
  /// - Parameter liveCallsPlaced: calls from this device that have not ended.
  public func refusalToPlace(liveCallsPlaced: Int) -> CallError? {
    liveCallsPlaced < liveCallsPerDevice ? nil : tooManyLiveCalls
  }
}
