internal import CCallProto
internal import CallCore

/// Push jobs and keys.
extension Unpacker {
  static func pushJob(
    _ message: UnsafeMutablePointer<Callmesh__V1__PushJob>
  ) throws(Fault) -> PushJob {
    try checkKept(format: message.pointee.format)
    guard var token = try pushToken(message.pointee.token, "token") else {
      throw .missing("token")
    }
    token.fingerprint = try text(message.pointee.token.pointee.fingerprint, "token.fingerprint")
    let dialect = try text(message.pointee.dialect, "dialect")
    guard let dialect = PushDialect(rawValue: dialect) else { throw .field("dialect") }
    return PushJob(
      user: UserKey(
        app: try text(message.pointee.app, "app"), user: try text(message.pointee.user, "user")),
      device: DeviceID(try text(message.pointee.device, "device")),
      call: try id(message.pointee.call, "call"),
      purpose: try known(message.pointee.purpose.rawValue, PushPurpose.self, "purpose"),
      token: token, dialect: dialect, caller: try party(message.pointee.caller, "caller"),
      video: message.pointee.video != 0,
      headers: try array(message.pointee.n_headers, message.pointee.headers, header),
      placedAt: Timestamp(microseconds: message.pointee.placed_at_us),
      ringDeadline: Timestamp(microseconds: message.pointee.ring_deadline_us),
      decidedAt: Timestamp(microseconds: message.pointee.decided_at_us),
      deadline: Timestamp(microseconds: message.pointee.deadline_us),
      reason: message.pointee.reason.rawValue == 0
        ? nil : try known(message.pointee.reason.rawValue, EndReason.self, "reason"),
      by: try optionalParty(message.pointee.by, "by"),
      isRingUnknown: message.pointee.ring_unknown != 0)
  }

  static func pushLeg(
    _ message: UnsafeMutablePointer<Callmesh__V1__PushLeg>
  ) throws(Fault) -> PushLeg {
    PushLeg(
      call: try id(message.pointee.call, "call"),
      device: DeviceID(try text(message.pointee.device, "device")))
  }

  static func pushKeys(
    _ message: UnsafeMutablePointer<Callmesh__V1__PushKeys>
  ) throws(Fault) -> PushKeys {
    try checkKept(format: message.pointee.format)
    guard (1...PushKeys.keysMax).contains(message.pointee.n_keys), let keys = message.pointee.keys
    else { throw .field("keys") }
    return PushKeys(
      keys: try (0..<message.pointee.n_keys).map { index throws(Fault) in
        guard keys[index].len == PushKeys.keyBytes, let data = keys[index].data else {
          throw .field("keys")
        }
        return Array(UnsafeBufferPointer(start: data, count: PushKeys.keyBytes))
      })
  }
}
