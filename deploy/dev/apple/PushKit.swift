// Parts of PushKit that the glue in Sources/CallmeshCallKit uses, after Apple's documentation; see CallKit.swift.
import Foundation

public struct PKPushType: Hashable, Sendable {
  public static let voIP = PKPushType()
}

open class PKPushCredentials: NSObject {
  open var type: PKPushType { .voIP }
  open var token: Data { Data() }
}

open class PKPushPayload: NSObject {
  open var type: PKPushType { .voIP }
  open var dictionaryPayload: [AnyHashable: Any] { [:] }
}

public protocol PKPushRegistryDelegate: NSObjectProtocol {
  func pushRegistry(
    _ registry: PKPushRegistry, didUpdate credentials: PKPushCredentials, for type: PKPushType)
  func pushRegistry(
    _ registry: PKPushRegistry, didReceiveIncomingPushWith payload: PKPushPayload,
    for type: PKPushType, completion: @escaping () -> Void)
  func pushRegistry(_ registry: PKPushRegistry, didInvalidatePushTokenFor type: PKPushType)
}

open class PKPushRegistry: NSObject {
  public init(queue: DispatchQueue?) {}
  open weak var delegate: (any PKPushRegistryDelegate)?
  open var desiredPushTypes: Set<PKPushType>?
}
