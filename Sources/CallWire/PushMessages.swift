internal import CCallProto
public import CallCore

/// The keys by which gateways mint the capabilities that pushes carry, and edges check them. The
/// value of a key in the cluster's configuration bucket. Secret: its bytes appear nowhere else.
public struct PushKeys: Sendable, Equatable {
  /// 32 bytes each. The newest comes first and mints; all are accepted.
  public var keys: [[UInt8]]
  public init(keys: [[UInt8]]) { self.keys = keys }

  public static let keyBytes = 32
  /// More are never needed, and every check tries them all.
  public static let keysMax = 8
}

extension ClusterCodec {
  public static func encode(_ value: PushJob) -> [UInt8] {
    Packer.bytes(Callmesh__V1__PushJob.self, value)
  }
  public static func encode(_ value: PushKeys) -> [UInt8] {
    Packer.bytes(Callmesh__V1__PushKeys.self, value)
  }
  /// Devices whose rings were dropped before a gateway sent them.
  public static func encode(neverSent legs: [PushLeg]) -> [UInt8] {
    Packer.bytes(Callmesh__V1__PushNeverSent.self, legs)
  }
  /// - Throws: also where a purpose, a dialect or a reason is one that this version does not know:
  ///   such a job is left to gateways that do.
  public static func pushJob(_ bytes: [UInt8]) throws(WireError) -> PushJob {
    try read(Callmesh__V1__PushJob.self, bytes, "push job")
  }

  /// - Throws: for bytes that are no such message.
  public static func pushNeverSent(_ bytes: [UInt8]) throws(WireError) -> [PushLeg] {
    try read(Callmesh__V1__PushNeverSent.self, bytes, "rings never sent")
  }

  /// - Throws: for bytes that are no such message.
  public static func pushKeys(_ bytes: [UInt8]) throws(WireError) -> PushKeys {
    try read(Callmesh__V1__PushKeys.self, bytes, "push keys")
  }
}
