internal import CCallProto
internal import CallCore

// Rules of users, in messages of devices and nodes (device.proto) and in the store (journal.proto).

extension Callmesh__V1__Rules: EmptyMapping {
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__rules__init(m) }
}

extension Callmesh__V1__UserRules: Mapping {
  static var blank: UserRules { UserRules() }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__user_rules__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.optional(&value.always, &m.always)
    try c.optional(&value.onBusy, &m.on_busy)
    try c.optional(&value.onNoAnswer, &m.on_no_answer)
    try c.optional(&value.onUnreachable, &m.on_unreachable)
    try c.optional(&value.doNotDisturb, &m.do_not_disturb)
    c.number(&value.noAnswerSeconds, &m.no_answer_seconds)
    c.number(&value.firstSeconds, &m.first_seconds)
    var devices = value.firstDevices.map(\.text)
    try c.texts(&devices, &m.n_first_devices, &m.first_devices, "firstDevices")
    c.time(&value.changedAt, milliseconds: &m.changed_at_ms)
    guard C.reads else { return }
    value.firstDevices = devices.map { DeviceID($0) }
    if value.noAnswerSeconds == 0 { value.noAnswerSeconds = UserRules.noAnswerStandard }
    if value.firstSeconds == 0 { value.firstSeconds = UserRules.firstStandard }
  }
}

extension Callmesh__V1__Forward: Mapping {
  static var blank: UserRules.Forward { UserRules.Forward(users: []) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__forward__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.texts(&value.users, &m.n_users, &m.users, "users")
  }
}

extension Callmesh__V1__DoNotDisturb: Mapping {
  static var blank: UserRules.DoNotDisturb { UserRules.DoNotDisturb() }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__do_not_disturb__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    c.time(&value.until, milliseconds: &m.until_ms)
    try c.texts(&value.except, &m.n_except, &m.except, "except")
  }
}

extension Callmesh__V1__RulesCommand: Mapping {
  static var blank: RulesRequest { .read }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__rules_command__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    var rules: UserRules? = if case .write(let rules) = value { rules } else { nil }
    try c.optional(&rules, &m.write)
    if C.reads { value = rules.map { .write($0) } ?? .read }
  }
}

extension Callmesh__V1__RulesRecord: Root {
  static var blank: StoredRules { StoredRules(user: .blank, rules: UserRules()) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__rules_record__init(m) }
  static let layout = WireLayout(of: Self.self)
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.format(&m.format, writes: ClusterCodec.firstFormat, .kept)
    try c.user(&value.user, &m.app, &m.user)
    try c.message(&value.rules, &m.rules, "rules")
    try c.optional(&value.rules.group, &m.group)
    try c.text(&value.rules.name, &m.name, "name")
  }
}
