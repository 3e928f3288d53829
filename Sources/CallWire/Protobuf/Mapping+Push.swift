internal import CCallProto
internal import CProtobufC
internal import CallCore

// Pushes, in messages of coordinators and gateways (cluster.proto).

extension Callmesh__V1__PushReport: Mapping {
  static var blank: PushReport {
    PushReport(
      call: .zero, device: "", purpose: .ring, fingerprint: "", outcome: .accepted, at: .zero)
  }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__push_report__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.id(&value.call, &m.call, "call")
    try c.known(&value.purpose, &m.purpose, "purpose")
    try c.text(&value.fingerprint, &m.fingerprint, "fingerprint")
    c.time(&value.at, microseconds: &m.at_us)
    try outcome(c, &value.outcome, &m)
    c.flag(&value.hasWebhooks, &m.webhooks)
    c.round(&value.round, &m.round)
    c.trust(&value.trust, &m.trust)
  }

  private static func outcome<C: Coder>(
    _ c: C, _ value: inout PushOutcome, _ m: inout Callmesh__V1__PushReport
  ) throws(C.Failure) {
    var since: Timestamp?
    var (reason, mayHaveArrived, environment) = ("", false, "")
    var (isRefused, isSure) = (false, false)
    var result = m.result
    switch value {
    case _ where C.reads: break
    case .accepted: result = CALLMESH__V1__PUSH_RESULT__PUSH_RESULT_ACCEPTED
    case .acceptedIn(let found):
      result = CALLMESH__V1__PUSH_RESULT__PUSH_RESULT_ACCEPTED
      environment = found
    case .tokenGone(let at):
      result = CALLMESH__V1__PUSH_RESULT__PUSH_RESULT_TOKEN_GONE
      since = at
    case .tokenRefused(let said, let sure):
      result = CALLMESH__V1__PUSH_RESULT__PUSH_RESULT_TOKEN_GONE
      (reason, isRefused, isSure) = (said, true, sure)
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
    c.flag(&isRefused, &m.token_refused)
    c.flag(&isSure, &m.token_surely_wrong)
    try c.text(&environment, &m.environment, "environment")
    guard C.reads else { return }
    switch result {
    case CALLMESH__V1__PUSH_RESULT__PUSH_RESULT_ACCEPTED:
      value = environment.isEmpty ? .accepted : .acceptedIn(environment: environment)
    case CALLMESH__V1__PUSH_RESULT__PUSH_RESULT_TOKEN_GONE:
      value =
        isRefused ? .tokenRefused(reason: reason, isSure: isSure) : .tokenGone(at: since)
    case CALLMESH__V1__PUSH_RESULT__PUSH_RESULT_REJECTED: value = .rejected(reason: reason)
    case CALLMESH__V1__PUSH_RESULT__PUSH_RESULT_EXPIRED: value = .expired
    case CALLMESH__V1__PUSH_RESULT__PUSH_RESULT_FAILED:
      value = .failed(reason: reason, mayHaveArrived: mayHaveArrived)
    default: throw c.failure(.unknownMember("result"))
    }
  }
}

extension Callmesh__V1__TokenTaken: Mapping {
  static var blank: TokenTaken { TokenTaken(fingerprint: "", byUser: "", byDevice: "", at: .zero) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__token_taken__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.text(&value.fingerprint, &m.fingerprint, "fingerprint")
    try c.text(&value.byUser, &m.by_user, "byUser")
    try c.device(&value.byDevice, &m.by_device, "byDevice")
    c.time(&value.at, microseconds: &m.at_us)
  }
}

extension Callmesh__V1__TokenOwner: Root {
  static var blank: TokenOwner { TokenOwner(user: .blank, device: "", claimedAt: .zero) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__token_owner__init(m) }
  static let layout = WireLayout(of: Self.self)
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .kept)
    try c.user(&value.user, &m.app, &m.user)
    try c.device(&value.device, &m.device)
    c.time(&value.claimedAt, microseconds: &m.claimed_at_us)
  }
}

extension Callmesh__V1__PushJob: Root {
  static var blank: PushJob {
    PushJob(
      user: .blank, device: "", call: .zero, purpose: .ring, token: Callmesh__V1__PushToken.blank,
      dialect: .callmesh, caller: Callmesh__V1__Party.blank, video: false, headers: [],
      placedAt: .zero, ringDeadline: .zero, decidedAt: .zero, deadline: .zero)
  }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__push_job__init(m) }
  static let layout = WireLayout(of: Self.self)
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .kept)
    try c.message(&value.token, &m.token, "token")
    if C.reads, value.token.isEmpty { throw c.failure(.missing("token")) }
    try c.user(&value.user, &m.app, &m.user)
    try c.device(&value.device, &m.device)
    try c.id(&value.call, &m.call, "call")
    try c.known(&value.purpose, &m.purpose, "purpose")
    var dialect = value.dialect.rawValue
    try c.text(&dialect, &m.dialect, "dialect")
    if let known = PushDialect(rawValue: dialect) {
      if C.reads { value.dialect = known }
    } else {
      throw c.failure(.field("dialect"))
    }
    try c.message(&value.caller, &m.caller, "caller")
    c.flag(&value.video, &m.video)
    try c.array(&value.headers, &m.n_headers, &m.headers)
    c.time(&value.placedAt, microseconds: &m.placed_at_us)
    c.time(&value.ringDeadline, microseconds: &m.ring_deadline_us)
    c.time(&value.decidedAt, microseconds: &m.decided_at_us)
    c.time(&value.deadline, microseconds: &m.deadline_us)
    try c.known(&value.reason, &m.reason, "reason")
    try c.optional(&value.by, &m.by)
    c.flag(&value.isRingUnknown, &m.ring_unknown)
    try c.text(&value.pushData, &m.push_data, "pushData")
    c.flag(&value.hasAlertToken, &m.alert_token)
    try c.text(&value.calledUser, &m.called_user, "calledUser")
    var unread = value.unread.map { $0 &+ 1 } ?? 0
    c.number(&unread, &m.unread)
    if C.reads { value.unread = unread == 0 ? nil : unread - 1 }
    c.flag(&value.hasWebhooks, &m.webhooks)
    c.round(&value.round, &m.round)
    c.trust(&value.trust, &m.trust)
  }
}

extension Callmesh__V1__PushWithdrawal: Root {
  static var blank: [PushRinging] { [] }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__push_withdrawal__init(m) }
  static let layout = WireLayout(of: Self.self)
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .said)
    var (calls, rounds) = (value.map(\.call), value.map { UInt64($0.round) })
    // Those of a first ringing say nothing of it.
    while rounds.last == 0 { rounds.removeLast() }
    try c.ids(&calls, &m.n_calls, &m.calls, "calls")
    try c.numbers(&rounds, &m.n_rounds, &m.rounds)
    guard C.reads else { return }
    value = calls.enumerated().map { index, call in
      PushRinging(
        call: call, round: rounds.indices.contains(index) ? UInt8(clamping: rounds[index]) : 0)
    }
  }
}

extension Callmesh__V1__PushNeverSent: Root {
  static var blank: [PushLeg] { [] }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__push_never_sent__init(m) }
  static let layout = WireLayout(of: Self.self)
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .said)
    try c.array(&value, &m.n_legs, &m.legs)
  }
}

extension Callmesh__V1__PushLeg: Mapping {
  static var blank: PushLeg { PushLeg(call: .zero, user: "", device: "") }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__push_leg__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.id(&value.call, &m.call, "call")
    try c.text(&value.user, &m.user, "user")
    try c.device(&value.device, &m.device)
    c.round(&value.round, &m.round)
  }
}

extension Coder {
  @safe
  func round(_ value: inout UInt8, _ field: inout UInt32) {
    var number = UInt32(value)
    self.number(&number, &field)
    if Self.reads { value = UInt8(clamping: number) }
  }

  /// A later version's value reads as none.
  @safe
  fileprivate func trust(_ value: inout TokenTrust, _ field: inout UInt32) {
    var number = UInt32(value.rawValue)
    self.number(&number, &field)
    if Self.reads { value = UInt8(exactly: number).flatMap(TokenTrust.init) ?? .unproven }
  }
}

extension Callmesh__V1__PushKeys: Root {
  static var blank: PushKeys { PushKeys(keys: []) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__push_keys__init(m) }
  static let layout = WireLayout(of: Self.self)
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .kept)
    try c.blobs(&value.keys, &m.n_keys, &m.keys)
    let areGood = value.keys.allSatisfy { $0.count == PushKeys.keyBytes }
    if C.reads, !areGood || !(1...PushKeys.keysMax).contains(value.keys.count) {
      throw c.failure(.field("keys"))
    }
  }
}
