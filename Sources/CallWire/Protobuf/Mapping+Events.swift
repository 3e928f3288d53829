internal import CCallProto
internal import CallCore

// Events of calls and devices for webhooks (events.proto).

extension Callmesh__V1__AppEvents: Root {
  static var blank: AppEventBatch { AppEventBatch(events: []) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__app_events__init(m) }
  static let layout = WireLayout(of: Self.self)
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .kept)
    guard C.reads else {
      var events = value.events.compactMap(\.self)
      return try c.array(&events, &m.n_events, &m.events)
    }
    value.events.reserveCapacity(m.n_events)
    for index in 0..<m.n_events {
      // A later version may have further kinds.
      let event = unsafe m.events?[index].flatMap { try? Unpacker(arena: c.arena).value(of: $0) }
      value.events.append(event)
    }
  }
}

extension Callmesh__V1__AppEvent: Mapping {
  static var blank: AppEvent {
    AppEvent(
      call: .zero, kind: .placed, at: .zero, callee: .blank, caller: Callmesh__V1__Party.blank,
      video: false, placedAt: .zero)
  }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__app_event__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.id(&value.call, &m.call, "call")
    try c.known(&value.kind, &m.kind, "kind")
    c.time(&value.at, microseconds: &m.at_us)
    try c.user(&value.callee, &m.app, &m.callee)
    try c.message(&value.caller, &m.caller, "caller")
    c.flag(&value.video, &m.video)
    c.time(&value.placedAt, microseconds: &m.placed_at_us)
    try c.optional(&value.by, &m.by)
    c.time(&value.answeredAt, microseconds: &m.answered_at_us)
    try c.known(&value.reason, &m.reason, "reason")
    c.flag(&value.missed, &m.missed)
    try c.optionalID(&value.survivor, &m.survivor, "survivor")
    try c.optional(&value.gone, &m.gone)
    _ = try c.known(&value.diversions, &m.n_diversions, &m.diversions)
    if C.reads, (value.kind == .gone) != (value.gone != nil) { throw c.failure(.field("gone")) }
  }
}

extension Callmesh__V1__GoneRegistration: Mapping {
  static var blank: GoneRegistration {
    GoneRegistration(device: "", registeredAt: .zero)
  }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__gone_registration__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.device(&value.device, &m.device)
    try c.text(&value.deviceName, &m.device_name, "deviceName")
    try c.known(&value.provider, &m.provider, "provider")
    c.flag(&value.isVoIP, &m.voip)
    try c.text(&value.fingerprint, &m.fingerprint, "fingerprint")
    c.time(&value.registeredAt, microseconds: &m.registered_at_us)
    try c.known(&value.cause, &m.cause, "cause")
  }
}

extension Callmesh__V1__DeadLetter: Root {
  static var blank: DeadLetter {
    DeadLetter(
      event: Callmesh__V1__AppEvent.blank, endpoint: "", host: "", attempts: 0, reason: "",
      at: .zero)
  }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__dead_letter__init(m) }
  static let layout = WireLayout(of: Self.self)
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .kept)
    try c.message(&value.event, &m.event, "event")
    try c.text(&value.endpoint, &m.endpoint, "endpoint")
    try c.text(&value.host, &m.host, "host")
    c.number(&value.attempts, &m.attempts)
    try c.text(&value.reason, &m.reason, "reason")
    c.time(&value.at, microseconds: &m.at_us)
  }
}

extension Callmesh__V1__WebhookProgress: Root {
  static var blank: WebhookProgress { WebhookProgress(app: "", host: "", since: .zero) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__webhook_progress__init(m) }
  static let layout = WireLayout(of: Self.self)
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .kept)
    try c.text(&value.owner, &m.owner, "owner")
    try c.text(&value.app, &m.app, "app")
    try c.text(&value.host, &m.host, "host")
    c.time(&value.since, microseconds: &m.since_us)
    c.number(&value.next, &m.next)
    try c.array(&value.open, &m.n_open, &m.open)
    c.number(&value.delivered, &m.delivered)
    c.number(&value.failures, &m.failures)
    c.number(&value.deadLetters, &m.dead_letters)
    c.time(&value.oldest, microseconds: &m.oldest_us)
    try c.text(&value.lastFailure, &m.last_failure, "lastFailure")
    c.flag(&value.isGone, &m.gone)
    c.time(&value.writtenAt, microseconds: &m.written_at_us)
  }
}

extension Callmesh__V1__OpenEvent: Mapping {
  static var blank: WebhookProgress.Place { WebhookProgress.Place(sequence: 0, index: 0) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__open_event__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    c.number(&value.sequence, &m.sequence)
    c.number(&value.index, &m.index)
  }
}
