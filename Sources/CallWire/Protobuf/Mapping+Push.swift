internal import CCallProto
internal import CProtobufC
internal import CallCore

// Pushes, as coordinators and gateways speak of them (cluster.proto).

enum PushReportMapping: Mapping {
  static var blank: PushReport {
    PushReport(
      call: CallID(high: 0, low: 0), device: "", purpose: .ring, fingerprint: "",
      outcome: .accepted, at: Timestamp(microseconds: 0))
  }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__PushReport>?) {
    callmesh__v1__push_report__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.id(&value.call, &m.call, "call")
    try c.known(&value.purpose, &m.purpose, "purpose")
    try c.text(&value.fingerprint, &m.fingerprint, "fingerprint")
    c.time(&value.at, microseconds: &m.at_us)
    try outcome(c, &value.outcome, &m)
  }

  private static func outcome<C: Coder>(
    _ c: C, _ value: inout PushOutcome, _ m: inout Callmesh__V1__PushReport
  ) throws(C.Failure) {
    var since: Timestamp?
    var (reason, mayHaveArrived) = ("", false)
    var result = m.result
    switch value {
    case _ where C.reads: break
    case .accepted: result = CALLMESH__V1__PUSH_RESULT__PUSH_RESULT_ACCEPTED
    case .tokenGone(let at):
      result = CALLMESH__V1__PUSH_RESULT__PUSH_RESULT_TOKEN_GONE
      since = at
    case .rejected(let said):
      result = CALLMESH__V1__PUSH_RESULT__PUSH_RESULT_REJECTED
      reason = said
    case .expired: result = CALLMESH__V1__PUSH_RESULT__PUSH_RESULT_EXPIRED
    case .failed(let said, let may):
      result = CALLMESH__V1__PUSH_RESULT__PUSH_RESULT_FAILED
      (reason, mayHaveArrived) = (said, may)
    }
    m.result = result
    c.time(&since, microseconds: &m.gone_since_us)
    try c.text(&reason, &m.reason, "reason")
    c.flag(&mayHaveArrived, &m.may_have_arrived)
    guard C.reads else { return }
    switch result {
    case CALLMESH__V1__PUSH_RESULT__PUSH_RESULT_ACCEPTED: value = .accepted
    case CALLMESH__V1__PUSH_RESULT__PUSH_RESULT_TOKEN_GONE: value = .tokenGone(at: since)
    case CALLMESH__V1__PUSH_RESULT__PUSH_RESULT_REJECTED: value = .rejected(reason: reason)
    case CALLMESH__V1__PUSH_RESULT__PUSH_RESULT_EXPIRED: value = .expired
    case CALLMESH__V1__PUSH_RESULT__PUSH_RESULT_FAILED:
      value = .failed(reason: reason, mayHaveArrived: mayHaveArrived)
    default: try c.fail(.unknownMember("result"))
    }
  }
}

enum TokenTakenMapping: Mapping {
  static var blank: TokenTaken {
    TokenTaken(fingerprint: "", byUser: "", byDevice: "", at: Timestamp(microseconds: 0))
  }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__TokenTaken>?) {
    callmesh__v1__token_taken__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.text(&value.fingerprint, &m.fingerprint, "fingerprint")
    try c.text(&value.byUser, &m.by_user, "byUser")
    try c.device(&value.byDevice, &m.by_device, "byDevice")
    c.time(&value.at, microseconds: &m.at_us)
  }
}

enum TokenOwnerMapping: Mapping {
  static var blank: TokenOwner {
    TokenOwner(
      user: UserKey(app: "", user: ""), device: "", claimedAt: Timestamp(microseconds: 0))
  }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__TokenOwner>?) {
    callmesh__v1__token_owner__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .kept)
    try c.user(&value.user, &m.app, &m.user)
    try c.device(&value.device, &m.device)
    c.time(&value.claimedAt, microseconds: &m.claimed_at_us)
  }
}

enum PushJobMapping: Mapping {
  static var blank: PushJob {
    let none = Timestamp(microseconds: 0)
    return PushJob(
      user: UserKey(app: "", user: ""), device: "", call: CallID(high: 0, low: 0), purpose: .ring,
      token: PushTokenMapping.blank, dialect: .callmesh, caller: PartyMapping.blank, video: false,
      headers: [], placedAt: none, ringDeadline: none, decidedAt: none, deadline: none)
  }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__PushJob>?) {
    callmesh__v1__push_job__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .kept)
    try c.message(PushTokenMapping.self, &value.token, &m.token, "token")
    if C.reads, value.token.isEmpty { try c.fail(.missing("token")) }
    try c.user(&value.user, &m.app, &m.user)
    try c.device(&value.device, &m.device)
    try c.id(&value.call, &m.call, "call")
    try c.known(&value.purpose, &m.purpose, "purpose")
    var dialect = value.dialect.rawValue
    try c.text(&dialect, &m.dialect, "dialect")
    if let known = PushDialect(rawValue: dialect) {
      value.dialect = known
    } else {
      try c.fail(.field("dialect"))
    }
    try c.message(PartyMapping.self, &value.caller, &m.caller, "caller")
    c.flag(&value.video, &m.video)
    try c.array(HeaderMapping.self, &value.headers, &m.n_headers, &m.headers)
    c.time(&value.placedAt, microseconds: &m.placed_at_us)
    c.time(&value.ringDeadline, microseconds: &m.ring_deadline_us)
    c.time(&value.decidedAt, microseconds: &m.decided_at_us)
    c.time(&value.deadline, microseconds: &m.deadline_us)
    try c.known(&value.reason, &m.reason, "reason")
    try c.optional(PartyMapping.self, &value.by, &m.by)
    c.flag(&value.isRingUnknown, &m.ring_unknown)
  }
}

enum PushWithdrawalMapping: Mapping {
  static var blank: [CallID] { [] }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__PushWithdrawal>?) {
    callmesh__v1__push_withdrawal__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .said)
    try c.ids(&value, &m.n_calls, &m.calls, "calls")
  }
}

enum PushNeverSentMapping: Mapping {
  static var blank: [PushLeg] { [] }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__PushNeverSent>?) {
    callmesh__v1__push_never_sent__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .said)
    try c.array(PushLegMapping.self, &value, &m.n_legs, &m.legs)
  }
}

private enum PushLegMapping: Mapping {
  static var blank: PushLeg { PushLeg(call: CallID(high: 0, low: 0), device: "") }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__PushLeg>?) {
    callmesh__v1__push_leg__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.id(&value.call, &m.call, "call")
    try c.device(&value.device, &m.device)
  }
}

enum PushKeysMapping: Mapping {
  static var blank: PushKeys { PushKeys(keys: []) }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__PushKeys>?) {
    callmesh__v1__push_keys__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .kept)
    try c.blobs(&value.keys, &m.n_keys, &m.keys)
    let areGood = value.keys.allSatisfy { $0.count == PushKeys.keyBytes }
    if C.reads, !areGood || !(1...PushKeys.keysMax).contains(value.keys.count) {
      try c.fail(.field("keys"))
    }
  }
}
