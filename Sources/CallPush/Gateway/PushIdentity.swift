public import CallCore
internal import Crypto

/// What makes two jobs the same push: a job that is handed out twice is one.
public struct PushIdentity: Sendable, Hashable {
  public var call: CallID
  public var device: DeviceID
  public var purpose: PushPurpose
  /// Of the token: a device has two.
  public var fingerprint: String

  public init(_ job: PushJob) {
    call = job.call
    device = job.device
    purpose = job.purpose
    fingerprint = job.token.fingerprint
  }

  /// A UUID of version 8 (RFC 9562, 5.8), lower-case as APNs demands of `apns-id`: the same from every
  /// gateway and for every attempt, so that a device knows a second copy.
  public var uuid: String {
    var hash = SHA256()
    hash.update(data: Array("callmesh push\0".utf8))
    for half in [call.high, call.low] {
      hash.update(data: (0..<8).map { UInt8(truncatingIfNeeded: half >> (56 - 8 * $0)) })
    }
    hash.update(data: [purpose.rawValue])
    hash.update(data: Array(device.text.utf8) + [0])
    hash.update(data: Array(fingerprint.utf8))
    var bytes = Array(hash.finalize().prefix(16))
    bytes[6] = bytes[6] & 0x0f | 0x80
    bytes[8] = bytes[8] & 0x3f | 0x80
    let digits = Array("0123456789abcdef".utf8)
    var text: [UInt8] = []
    for (index, byte) in bytes.enumerated() {
      if [4, 6, 8, 10].contains(index) { text.append(UInt8(ascii: "-")) }
      text += [digits[Int(byte >> 4)], digits[Int(byte & 15)]]
    }
    return String(decoding: text, as: UTF8.self)
  }
}
