// Types of the cluster that apps see. Only these names of the two modules are exported.

@_exported public import struct CallCore.CallID
@_exported public import struct CallCore.CustomHeader
@_exported public import enum CallCore.EndReason
@_exported public import struct CallCore.HistoryCursor
@_exported public import struct CallCore.HistoryEntry
@_exported public import struct CallCore.HistoryPage
@_exported public import struct CallCore.HistoryState
@_exported public import struct CallCore.LiveCalls
@_exported public import struct CallCore.Notice
@_exported public import struct CallCore.OngoingCall
@_exported public import struct CallCore.Party
@_exported public import enum CallCore.PushProvider
@_exported public import struct CallCore.PushToken
@_exported public import struct CallCore.RegistrationRequest
@_exported public import enum CallCore.SignalKind
@_exported public import struct CallCore.Timestamp
@_exported public import enum CallCore.UnreachableCause
@_exported public import struct CallCore.UserRules
@_exported public import struct CallWire.CallAddress
@_exported public import struct CallWire.RegisteredInfo

/// An additional text of a call, as in `PlaceOptions.headers`.
public typealias Header = CustomHeader
/// The user's decisions in advance about calls: do not disturb, forwarding, which devices ring first.
public typealias Rules = UserRules
/// Push tokens and capabilities, as `Device.register` stores them.
public typealias Registration = RegistrationRequest
/// A registration as stored.
public typealias Registered = RegisteredInfo
/// The callee and the id of a call, by which the cluster knows it. An empty callee is the device's own user.
public typealias Address = CallAddress
