public import CallCore
internal import Crypto

/// Identifies a push. Two deliveries of a job, or two equal jobs, are one push.
public struct PushIdentity: Sendable, Hashable {
  public var call: CallID
  public var device: DeviceID
  public var purpose: PushPurpose
  /// The token's: a device has two.
  public var fingerprint: String

  public init(_ job: PushJob) {
    call = job.call
    device = job.device
    purpose = job.purpose
    fingerprint = job.token.fingerprint
  }

  /// A UUID of version 8 (RFC 9562, 5.8), in lower case as `apns-id` requires: the same on every gateway and for every
  /// attempt, so that a device detects a second copy.
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
    return [0..<4, 4..<6, 6..<8, 8..<10, 10..<16].map { hexText(bytes[$0]) }.joined(separator: "-")
  }
}
