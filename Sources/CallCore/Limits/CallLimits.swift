/// The numbers in the rules of calls, with the product's defaults. An operator may set others for the whole
/// cluster, not for one app.
public struct CallLimits: Sendable, Equatable {
  public var ringTimeout: Span = .seconds(30)
  public var ringTimeoutMinimum: Span = .seconds(5)
  public var ringTimeoutMaximum: Span = .seconds(180)
  /// From the answer until both sides report connected.
  public var connectGrace: Span = .seconds(15)
  /// For a caller whose session broke while it rings.
  public var resumeGraceRinging: Span = .seconds(15)
  /// For either side of an answered call.
  public var resumeGraceAnswered: Span = .seconds(60)
  /// How long a call waits for a registered device whose session broke just before the call was
  /// placed, and for any device while an edge is missing. Zero: a call waits for no device.
  public var reattachGrace: Span = .seconds(5)
  /// The least time, after an attach, in which the device that has an answered call must acknowledge it or send a command
  /// about it. Most retransmissions of the delivery that asks for this fit into it.
  public var winnersWord: Span { max(reattachGrace, .seconds(5)) }
  /// For how long the shard of a call that gave way to a crossing one asks that one's shard to connect the two
  /// devices. After that the surviving call rings on.
  public var mergeTimeout: Span = .seconds(30)
  /// Before a delivery is retransmitted: first, second, … time. After the last it is given up until
  /// the device attaches again.
  public var deliveryRepeats: [Span] = [
    .milliseconds(500), .seconds(1), .seconds(2), .seconds(4),
  ]
  /// How long an ended call is kept, so that a late device gets a distinct answer.
  public var endedCallKept: Span = .seconds(600)
  /// A device that has a session is pushed as well if it does not acknowledge an invite for this long.
  public var pushAfterSilence: Span = .seconds(2)
  /// For how long after its end a call's clean-up pushes are worth sending: after that a phone has stopped ringing
  /// by itself. A push that rings is wanted until the call's deadline.
  public var cleanUpPushLifetime: Span = .seconds(30)
  /// For how long the provider keeps a missed-call notice for a phone that is off.
  public var missedNoticeLifetime: Span = .seconds(86_400)
  /// For how long a new owner adds pushes to the work queue again if it is unknown whether they left. Must be
  /// shorter than the queue's deduplication window.
  public var pushRetransmitWindow: Span = .seconds(240)
  public var registrationLifetime: Span = .seconds(90 * 86_400)
  /// A registration holds the time at which its device was last seen. It is written again when that time is
  /// older than this.
  public var lastSeenWriteInterval: Span = .seconds(86_400)
  /// How often registrations are searched for those that were unseen for too long.
  public var expirySweepInterval: Span = .seconds(3600)
  /// How often a registration begins anew with a token because another device claimed it meanwhile.
  /// After that the registration is refused (`tryAgain`).
  public var tokenClaimAttempts = 5
  /// Registrations of one shard that wait for the store or for their tokens' former owners. Policy:
  /// refuse (`tryAgain`).
  public var registrationsWaiting = 1000
  public var devicesPerUser = 10
  /// Devices of a user that are attached or registered, all of which a call rings. Policy: refuse
  /// (`tooManyDevices`) the attach or the registration of one more.
  public var legsPerCall: Int { devicesPerUser * 2 }
  /// Devices of a user that a new owner takes over from edges. It may have let in `legsPerCall` itself before the
  /// edges announced those of the owner before. Policy: close the session of one more (`deviceRemoved`).
  public var announcedDevicesPerUser: Int { legsPerCall * 2 }
  /// Devices that take part in one call in all its time, with those that left. Policy: one more does not ring, and
  /// its answer is refused (`tooManyDevices`).
  public var legsPerCallLifetime: Int { max(legsPerCall, min(legsPerCall * 4, 120)) }
  public var liveCallsPerDevice = 5
  public var callsPerPairPerMinute = 10
  /// Calls to one user that are not settled: they live, or a device has not acknowledged their end. Each attach of
  /// the user's devices visits all of them. Policy: refuse (`tooManyCalls`).
  public var callsToUser = 1000
  public var headersCount = 32
  public var headersBytes = 4096
  public var descriptionBytes = 65_536
  /// Data that a caller's app adds to the pushes that ring. The payloads of all providers have room for twice as much.
  public var pushDataBytes = 1024
  /// Descriptions, candidates and informations kept for one side of one call.
  public var signalsWaiting = 128
  /// One candidate.
  public var signalBytes = 16_384
  /// One information of an answered call.
  public var informationBytes = 4096
  /// How long descriptions and candidates may wait, to share an append; alerting and hang-up four times as long.
  public var lazyAppend: Span = .milliseconds(5)
  /// How often the sides of a call move to other devices. Policy: refuse (`tooManyMoves`).
  public var movesPerCall = 32
  /// How often a call goes on to other users, and to how many of them at once. Policy: it does not, and ignore more.
  public var diversionsPerCall = 5
  public var diversionTargets = 10
  /// Devices that a call to a group of more than `diversionTargets` members may ring.
  public var legsPerGroupCall = 250
  /// Calls one shard holds, ended ones included. Policy: refuse (`overloaded`).
  public var callsPerShard = 200_000
  /// Ended calls that one shard keeps for longer than `endedCallKept` because their records or their entries in
  /// histories are not stored. Policy: forget the call, and count it; what is not stored is lost.
  public var unrecordedCalls = 1000
  /// A user in an answered call is busy for further calls; else it rings and the app does call
  /// waiting. Calls that the user placed are in other users' shards: edges report those.
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
