internal import CCallProto
internal import CProtobufC
internal import CallCore

/// Push jobs and keys.
extension Packer {
  func pushJob(_ value: PushJob) -> UnsafeMutablePointer<Callmesh__V1__PushJob> {
    let message = arena.make(callmesh__v1__push_job__init)
    message.pointee.format = ClusterCodec.firstFormat
    set(&message.pointee.app, value.user.app)
    set(&message.pointee.user, value.user.user)
    set(&message.pointee.device, value.device.text)
    message.pointee.call = id(value.call)
    message.pointee.purpose = .init(rawValue: .init(value.purpose.rawValue))
    let token = pushToken(value.token)
    set(&token.pointee.fingerprint, value.token.fingerprint)
    message.pointee.token = token
    set(&message.pointee.dialect, value.dialect.rawValue)
    message.pointee.caller = party(value.caller)
    message.pointee.video = value.video ? 1 : 0
    message.pointee.n_headers = value.headers.count
    message.pointee.headers = array(value.headers, header)
    message.pointee.placed_at_us = value.placedAt.microseconds
    message.pointee.ring_deadline_us = value.ringDeadline.microseconds
    message.pointee.decided_at_us = value.decidedAt.microseconds
    message.pointee.deadline_us = value.deadline.microseconds
    message.pointee.reason = .init(rawValue: .init(value.reason?.rawValue ?? 0))
    message.pointee.by = value.by.map(party)
    message.pointee.ring_unknown = value.isRingUnknown ? 1 : 0
    return message
  }

  func pushNeverSent(
    _ legs: [PushLeg]
  ) -> UnsafeMutablePointer<Callmesh__V1__PushNeverSent> {
    let message = arena.make(callmesh__v1__push_never_sent__init)
    message.pointee.format = ClusterCodec.firstFormat
    message.pointee.n_legs = legs.count
    message.pointee.legs = array(legs, pushLeg)
    return message
  }

  private func pushLeg(_ value: PushLeg) -> UnsafeMutablePointer<Callmesh__V1__PushLeg> {
    let message = arena.make(callmesh__v1__push_leg__init)
    message.pointee.call = id(value.call)
    set(&message.pointee.device, value.device.text)
    return message
  }

  func pushKeys(_ value: PushKeys) -> UnsafeMutablePointer<Callmesh__V1__PushKeys> {
    let message = arena.make(callmesh__v1__push_keys__init)
    message.pointee.format = ClusterCodec.firstFormat
    guard !value.keys.isEmpty else { return message }
    let keys = arena.pointers(ProtobufCBinaryData.self, count: value.keys.count)
    for (index, key) in value.keys.enumerated() {
      let copy = arena.bytes(key.count)
      for (offset, byte) in key.enumerated() { copy[offset] = byte }
      (keys + index).initialize(to: ProtobufCBinaryData(len: key.count, data: copy))
    }
    message.pointee.n_keys = value.keys.count
    message.pointee.keys = keys
    return message
  }
}
