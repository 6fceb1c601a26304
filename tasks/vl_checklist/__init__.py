"""VL-CheckList: true phrases of photographs beside false ones, by thirteen aspects."""
