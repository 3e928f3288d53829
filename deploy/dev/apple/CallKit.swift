// Parts of CallKit that the glue in Sources/CallmeshCallKit uses, written after Apple's documentation, so that it can
// be type-checked where Apple's SDK is not. Nothing here runs.
import Foundation

public enum CXCallEndedReason: Int, Sendable {
  case failed = 1
  case remoteEnded, unanswered, answeredElsewhere, declinedElsewhere
}

public struct CXErrorCodeIncomingCallError: Error {
  public enum Code: Int, Sendable {
    case unknown = 0
    case unentitled, callUUIDAlreadyExists, filteredByDoNotDisturb, filteredByBlockList
    case filteredDuringRestrictedSharingMode, callIsProtected, filteredBySensitiveParticipants
  }
  public var code: Code
}

open class CXHandle: NSObject, @unchecked Sendable {
  public enum HandleType: Int, Sendable {
    case generic = 1
    case phoneNumber, emailAddress
  }
  public init(type: HandleType, value: String) { self.value = value }
  public let value: String
}

open class CXCallUpdate: NSObject {
  open var remoteHandle: CXHandle?
  open var localizedCallerName: String?
  open var supportsHolding = false
  open var supportsGrouping = false
  open var supportsUngrouping = false
  open var supportsDTMF = false
  open var hasVideo = false
}

open class CXProviderConfiguration: NSObject {
  open var maximumCallGroups = 2
  open var maximumCallsPerCallGroup = 5
  open var supportsVideo = false
  open var supportedHandleTypes: Set<CXHandle.HandleType> = []
}

open class CXAction: NSObject {
  public let uuid = UUID()
  open func fulfill() {}
  open func fail() {}
}

open class CXCallAction: CXAction {
  public init(call: UUID) { callUUID = call }
  public let callUUID: UUID
}

open class CXStartCallAction: CXCallAction {
  public init(call: UUID, handle: CXHandle) {
    self.handle = handle
    super.init(call: call)
  }
  open var handle: CXHandle
  open var isVideo = false
}

open class CXAnswerCallAction: CXCallAction {}
open class CXEndCallAction: CXCallAction {}

open class CXSetHeldCallAction: CXCallAction {
  open var isOnHold = false
}

open class CXSetMutedCallAction: CXCallAction {
  open var isMuted = false
}

open class CXTransaction: NSObject {
  public init(action: CXAction) {}
}

open class CXCallController: NSObject {
  open func request(
    _ transaction: CXTransaction, completion: @escaping @Sendable ((any Error)?) -> Void
  ) {}
}

open class AVAudioSession: NSObject {}

public protocol CXProviderDelegate: NSObjectProtocol {
  func providerDidReset(_ provider: CXProvider)
  func provider(_ provider: CXProvider, perform action: CXStartCallAction)
  func provider(_ provider: CXProvider, perform action: CXAnswerCallAction)
  func provider(_ provider: CXProvider, perform action: CXEndCallAction)
  func provider(_ provider: CXProvider, perform action: CXSetHeldCallAction)
  func provider(_ provider: CXProvider, perform action: CXSetMutedCallAction)
  func provider(_ provider: CXProvider, timedOutPerforming action: CXAction)
  func provider(_ provider: CXProvider, didActivate audioSession: AVAudioSession)
  func provider(_ provider: CXProvider, didDeactivate audioSession: AVAudioSession)
}

open class CXProvider: NSObject, @unchecked Sendable {
  public init(configuration: CXProviderConfiguration) {}
  open func setDelegate(_ delegate: (any CXProviderDelegate)?, queue: DispatchQueue?) {}
  open func reportNewIncomingCall(
    with uuid: UUID, update: CXCallUpdate, completion: @escaping @Sendable ((any Error)?) -> Void
  ) {}
  open func reportCall(with uuid: UUID, endedAt: Date?, reason: CXCallEndedReason) {}
  open func reportOutgoingCall(with uuid: UUID, startedConnectingAt: Date?) {}
  open func reportOutgoingCall(with uuid: UUID, connectedAt: Date?) {}
  open func pendingCallActions(of callActionClass: AnyClass, withCall callUUID: UUID)
    -> [CXCallAction]
  { [] }
}
